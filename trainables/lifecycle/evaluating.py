"""How an algorithm evaluates: between training iterations, or beside them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainables.core.callables import resolve_callable
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.reported_metrics import OLDER_EVALUATED, older_names
from trainables.lifecycle.policy_access import PolicyAccess
from trainables.lifecycle.stopping import running
from trainables.runtime.callbacks.algorithm import AlgorithmCallbacks
from trainables.runtime.callbacks.custom_metrics import HISTOGRAMS, PREFIX
from trainables.runtime.evaluation.group import EvaluationGroup
from trainables.runtime.evaluation.result import NOTHING, EvaluationResult
from trainables.runtime.metrics import Timers
from trainables.runtime.sampling.group import EnvRunnerGroup
from trainables.runtime.trial_log import tell_evaluation

_OLDER = {
    old.removeprefix("evaluation/"): new.removeprefix("evaluation/")
    for old, new in OLDER_EVALUATED.items()
}


class Evaluating(PolicyAccess):
    """Part of `Algorithm`: evaluations.

    Neither training's random streams nor filter statistics are touched, and every evaluation plays
    on the same seeds, so that two of them differ by the policy alone.

    Attributes:
        eval_env_runner_group: Plays, in process or over actors.
    """

    config: AlgorithmConfig
    callbacks: AlgorithmCallbacks
    env_runners: EnvRunnerGroup
    eval_env_runner_group: EvaluationGroup
    timers: Timers
    iteration: int
    num_training_steps: int
    _evaluation: dict[str, float]
    _evaluation_seed: np.random.SeedSequence

    def _set_up_evaluation(self, video_folder: str | None) -> None:
        function = self.config.custom_evaluation_function
        self._evaluation_function: Callable[..., Any] | None = (
            resolve_callable(function) if isinstance(function, str) else function
        )
        existing: EvaluationGroup | None = getattr(self, "eval_env_runner_group", None)
        given = (self.config, self.get_policy(), video_folder)
        if existing is None:
            self.eval_env_runner_group = EvaluationGroup(*given)
        else:
            existing.rebuild(*given)
        self.eval_env_runner_group.on_recreated = lambda indices: self.callbacks(
            "on_env_runners_recreated",
            env_runner_group=self.eval_env_runner_group,
            env_runner_indices=indices,
            is_evaluation=True,
        )

    @property
    def evaluation_workers(self) -> EvaluationGroup:
        """The older name of `eval_env_runner_group`."""
        return self.eval_env_runner_group

    @running
    def evaluate(self, duration_fn: Callable[[int], int] | None = None) -> dict[str, float]:
        """Play `evaluation_duration` episodes (or steps) with the present policy.

        With "auto" each actor plays one episode, since there is no training to play beside.

        Args:
            duration_fn: Decides instead of `evaluation_duration`: it is given how many episodes (or
                steps) were played and says how many more are to be; 0 ends the evaluation.

        Returns:
            Flat metrics; those of the last evaluation if no actor answered in time, and if there is
            none, NaN for means and 0 for numbers of episodes and steps.

        Raises:
            ConfigError: if `duration_fn` says no number, or a function of the config evaluates.
        """
        if duration_fn is not None and self._evaluation_function is not None:
            raise ConfigError(
                "duration_fn has no effect with custom_evaluation_function, which evaluates itself"
            )
        with self.timers("evaluate"):
            self._sync_evaluation()
            group = self.eval_env_runner_group
            if self._evaluation_function is None:
                played = group.play() if duration_fn is None else group.play_until(duration_fn)
                metrics = _metrics_of(played)
            else:
                metrics = _checked(self._evaluation_function(self, group))
        return self._take_over(metrics)

    def _begin_evaluation_if_due(self) -> None:
        """Beside training: ask the actors to play with the weights that the iteration has first."""
        if self.config.evaluation_parallel_to_training and self._evaluation_is_due():
            with self.timers("evaluate"):
                self._sync_evaluation()
                self.eval_env_runner_group.begin()

    def _evaluate_if_due(self) -> dict[str, float]:
        """The metrics of the evaluation that belongs to this iteration's result."""
        if self.eval_env_runner_group.is_running:
            with self.timers("evaluate"):
                metrics = _metrics_of(self.eval_env_runner_group.collect())
            return self._take_over(metrics)
        if self._evaluation_is_due():
            return self.evaluate()
        attach = self.config.evaluation_interval and self.config.always_attach_evaluation_results
        return self._last_evaluation() if attach else {}

    def _evaluation_is_due(self) -> bool:
        """Whether this iteration's result has an evaluation of its own.

        The first one does if every result is to have one.
        """
        interval = self.config.evaluation_interval
        if not interval:
            return False
        is_first = self.config.always_attach_evaluation_results and not self._evaluation
        return is_first or (self.iteration + 1) % interval == 0

    def _sync_evaluation(self) -> None:
        self.callbacks("on_evaluate_start")
        self._evaluated_after = self.num_training_steps
        self.eval_env_runner_group.sync_weights(
            self.iteration + 1, self.env_runners.weights_version, self._evaluation_seed
        )

    def _take_over(self, metrics: dict[str, float] | None) -> dict[str, float]:
        """Make metrics the latest evaluation; without any, the last one stays. Returns it."""
        group = self.eval_env_runner_group
        of_weights = {
            "weights_version": group.weights_version,
            "num_training_step_calls": self._evaluated_after,
        }
        if metrics is not None:
            # A metric that was there once stays.
            logged = (PREFIX, HISTOGRAMS)
            seen = {name: v for name, v in self._evaluation.items() if name.startswith(logged)}
            metrics = seen | metrics | of_weights
            self.callbacks.end_evaluation(metrics)
            self._evaluation = metrics
            tell_evaluation(metrics, self._evaluated_after)
        elif not self._evaluation:
            logger.warning(
                "evaluation: nothing was played within evaluation_sample_timeout_s = %g, and there "
                "is no earlier evaluation: evaluation/episode_return_mean is NaN, and training "
                "goes on",
                self.config.evaluation_sample_timeout_s,
            )
            self._evaluation = NOTHING.metrics() | of_weights
        self._evaluation |= group.metrics()
        return self._last_evaluation()

    def _last_evaluation(self) -> dict[str, float]:
        """Its metrics, by their older names, too; a callback has changed them by now."""
        return {**older_names(self._evaluation, _OLDER), **self._evaluation}


def _metrics_of(result: EvaluationResult | None) -> dict[str, float] | None:
    return None if result is None else result.metrics()


def _checked(metrics: Any) -> dict[str, float]:
    """What `custom_evaluation_function` returned.

    Raises:
        ConfigError: if it is not a flat dict of numbers, NaN (unknown) or finite ones.
    """
    if not isinstance(metrics, Mapping) or not metrics:
        raise ConfigError(
            f"custom_evaluation_function returned {metrics!r}; allowed: a dict of numbers by name"
        )
    for name, value in metrics.items():
        if not isinstance(name, str) or not isinstance(value, numbers.Real) or math.isinf(value):
            raise ConfigError(
                f"custom_evaluation_function returned {name!r}: {value!r}; allowed: a finite "
                "number for each name, or NaN where none is known"
            )
    # As plain numbers: numpy's are not written as JSON.
    return {k: int(v) if isinstance(v, numbers.Integral) else float(v) for k, v in metrics.items()}
