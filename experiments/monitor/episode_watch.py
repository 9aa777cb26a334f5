"""Environments whose episodes do not end, as a sweep sees them: said once, and not judged.

A trial reports before its first episode has ended, so that its steps are seen and its stop
criterion holds. Its return is NaN until then, which schedulers would take for the worst of all.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ray import tune

from analysis.names import ENV_STEPS, EPISODES, EVALUATED_EPISODES, EVALUATION

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)


class EpisodeWatch(tune.Callback):
    """Warns, once for each environment, of a trial in which no episode has ended for long."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Look at how many steps the trial has made."""
        if result.get(EPISODES) != 0:  # the usual case; None: of a trainable that counts none
            return
        from trainables.runtime.envs.make import env_name
        from trainables.runtime.sampling.endless import ADVICE, noted_after

        steps, env = int(result.get(ENV_STEPS) or 0), env_name(trial.config.get("env", ""))
        is_early = steps < noted_after(_num_slots(trial.config)) and not result.get("done")
        if env in self._told or is_early:
            return
        self._told.add(env)
        logger.warning(
            "env %r: no episode has ended in %s environment steps of trial %s, so its "
            "episode_return_mean is NaN until one does. %s.",
            env,
            f"{steps:,}",
            trial.trial_id,
            ADVICE,
        )


def _num_slots(config: Mapping[str, Any]) -> int:
    """Environments that a trial steps side by side, as far as its settings say."""
    per_runner = int(config.get("num_envs_per_env_runner") or 1)
    return per_runner * max(1, int(config.get("num_env_runners") or 0))


def is_unknown(result: Mapping[str, Any], metric: str | None) -> bool:
    """Tell whether an objective is not known yet, for no episode has ended; not one that diverged.

    That of an evaluation is not if none of its own episodes has.

    Args:
        result: Flat.
        metric: The objective.
    """
    value = result.get(metric or "")
    episodes = EVALUATED_EPISODES if (metric or "").startswith(EVALUATION) else EPISODES
    return result.get(episodes) == 0 and isinstance(value, float) and math.isnan(value)
