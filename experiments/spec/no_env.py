"""A sweep of an algorithm whose training steps no environment: what it counts and is judged by.

There is no return of training, and no environment step: returns come from evaluations, and time is
counted in steps that were trained on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.names import ENV_STEPS, EVALUATION, RETURN, TRAINED
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document, KeyPath
from trainables.core.all_metrics import SAMPLED

_NOT_REPORTED = {metric.name for metric in SAMPLED}


def trains_in_env(config: Mapping[str, Any], trainable: type) -> bool:
    """Tell whether training steps an environment, as of every trainable but some algorithms.

    Args:
        config: The fixed settings, checked.
        trainable: The class that a spec names.
    """
    config_class: Any = getattr(trainable, "config_class", None)
    if not hasattr(config_class, "needs_env"):
        return True
    return bool(config_class.from_dict(config).needs_env)


def check_reported(document: Document, place: KeyPath, metric: str, trainable: str) -> None:
    """Refuse a metric of sampling.

    Raises:
        SpecError: No result would have it.
    """
    if metric in _NOT_REPORTED:
        raise document.error(
            place,
            f"{place[0]}: {trainable} does not report {metric}, because its training steps no "
            f"environment; for returns use metrics below {EVALUATION} "
            f"(config.evaluation_interval), for time {TRAINED} or training_iteration",
        )


def settle_defaults(document: Document, spec: SweepSpec) -> None:
    """Judge trials by their evaluations, and count budgets in steps that were trained on.

    That is where the spec says neither itself: by default both are of sampling.

    Raises:
        SpecError: There are no evaluations.
    """
    for objective in (spec.objective, *spec.objectives):
        if objective.metric != RETURN:
            continue
        objective.metric = f"{EVALUATION}{RETURN}"
        if not spec.config.get("evaluation_interval"):
            raise document.error(
                ("objective",),
                f"objective: training of {spec.trainable} steps no environment, so that trials are "
                f"compared by {objective.metric}: set config.evaluation_interval, or another "
                "metric",
            )
    scheduler: Any = spec.scheduler
    unsaid = (ENV_STEPS, None) if getattr(scheduler, "schedule", None) else (ENV_STEPS,)
    if hasattr(scheduler, "time_attr") and scheduler.time_attr in unsaid:
        scheduler.time_attr = TRAINED
