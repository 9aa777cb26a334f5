"""The trial scheduler of a spec. Metric and mode come from the tune config."""

from __future__ import annotations

from typing import Any

from ray.tune.schedulers import TrialScheduler

from experiments.schedulers.kind import Parts
from experiments.schedulers.registry import scheduler_kind
from experiments.spec.schema import SweepSpec
from search_spaces.space import SearchSpace


def build_scheduler(
    spec: SweepSpec, space: SearchSpace, trainable: Any, num_trials: int
) -> TrialScheduler:
    """Return the scheduler that a checked spec asks for.

    Args:
        spec: The sweep.
        space: Its search space.
        trainable: The trainable class; its `config_class` says which mutations are valid.
        num_trials: The number of trials of the sweep.
    """
    config_class = getattr(trainable, "config_class", None)
    check = None if config_class is None else _Check(config_class)
    return scheduler_kind(spec.scheduler).build(Parts(spec, num_trials, space, check))


class _Check:
    """Whether a whole config is valid for a config class; pickled with Tune's state."""

    def __init__(self, config_class: Any) -> None:
        self._config_class = config_class

    def __call__(self, config: dict[str, Any]) -> None:
        self._config_class.from_dict(config).validate()
