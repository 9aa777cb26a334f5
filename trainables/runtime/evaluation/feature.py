"""Evaluation as a feature: how an algorithm evaluates, between iterations or beside them."""

from __future__ import annotations

import math
import numbers
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from trainables.core.callables import resolve_callable
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.features import Feature, feature
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import OLDER_EVALUATED, older_names
from trainables.runtime.callbacks.custom_metrics import HISTOGRAMS, PREFIX
from trainables.runtime.evaluation.agents import SEVERAL_AGENTS, told_agents
from trainables.runtime.evaluation.group import EvaluationGroup, LocalEvaluationGroup
from trainables.runtime.evaluation.result import NOTHING, EvaluationResult
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.trial_log import tell_evaluation

_OLDER = {
    old.removeprefix("evaluation/"): new.removeprefix("evaluation/")
    for old, new in OLDER_EVALUATED.items()
}


class Player:
    """What evaluates the policies of an algorithm, see `lifecycle.evaluation`.

    Args:
        algorithm: The algorithm.
        video_folder: Where videos go; None if there are none.
        existing: The group of the trial before in this process: actors that fit are used again,
            others end.

    Attributes:
        group: What plays, in this process or over actors.
    """

    def __init__(self, algorithm: Any, video_folder: str | None, existing: Any):
        # Weak, or memory would be free only when the garbage collector comes by.
        self._owner = weakref.ref(algorithm)
        config = algorithm.config
        self._evaluated_after = 0
        self.group = make_evaluation(
            existing, config, algorithm.policies, algorithm.module_slots, video_folder
        )
        self._estimates: Any = None
        if config.off_policy_estimation_methods:
            self._estimates = feature("estimates").of_algorithm(config, algorithm.policies)
        self._estimated: dict[str, float] = {}
        function = config.custom_evaluation_function
        self._function: Callable[..., Any] | None = (
            resolve_callable(function) if isinstance(function, str) else function
        )
        # No method of this: a circle of references would keep the policies.
        self.group.on_recreated = partial(_tell_recreated, self._owner)

    @property
    def _algorithm(self) -> Any:
        owner = self._owner()
        if owner is None:
            raise ReferenceError("the algorithm of this evaluation is gone")
        return owner

    @property
    def _seed(self) -> np.random.SeedSequence:
        seed: np.random.SeedSequence = self._algorithm.evaluation.seed
        return seed

    def evaluate(self, duration_fn: Callable[[int], int] | None = None) -> dict[str, float]:
        """Play with the present policy, and estimate from data; see `Algorithm.evaluate`."""
        if duration_fn is not None and self._function is not None:
            raise ConfigError(
                "duration_fn has no effect with custom_evaluation_function, which evaluates itself"
            )
        plays = self._function is not None or self._algorithm.config.evaluation_env is not None
        if not (plays or self._estimates) or (not plays and duration_fn is not None):
            raise ConfigError(
                "there is no environment to evaluate in: set evaluation_config={'env': …}, or env"
            )
        with self._algorithm.timers("evaluate"):
            self._sync()
            group = self.group
            if not plays:
                metrics: dict[str, float] | None = {}
            elif self._function is None:
                played = group.play() if duration_fn is None else group.play_until(duration_fn)
                metrics = _metrics_of(played)
            else:
                group.foreach_env_runner(methodcaller("begin_samples", self._seed))
                try:
                    metrics = _checked(self._function(self._algorithm, group))
                finally:
                    group.foreach_env_runner(methodcaller("end_samples"))
        return self._take_over(metrics)

    def begin_if_due(self) -> None:
        """Beside training: ask the actors to play with the weights that the iteration has first."""
        if self._algorithm.config.evaluation_parallel_to_training and self._is_due():
            with self._algorithm.timers("evaluate"):
                self._sync()
                self.group.begin()

    def evaluate_if_due(self) -> dict[str, float]:
        """Return the metrics of the evaluation that belongs to this iteration's result."""
        if self.group.is_running:
            with self._algorithm.timers("evaluate"):
                played = _metrics_of(self.group.collect())
            return self._take_over(played)
        if self._is_due():
            metrics: dict[str, float] = self._algorithm.evaluate()  # a subclass may override it
            return metrics
        attach = (
            self._algorithm.config.evaluation_interval
            and self._algorithm.config.always_attach_evaluation_results
        )
        return self._shown() if attach else {}

    def _is_due(self) -> bool:
        """Tell whether this iteration's result has an evaluation of its own.

        The first one does if every result is to have one.
        """
        interval = self._algorithm.config.evaluation_interval
        if not interval:
            return False
        attaches = self._algorithm.config.always_attach_evaluation_results
        is_first = attaches and not self._algorithm.evaluation.latest
        return bool(is_first or (self._algorithm.iteration + 1) % interval == 0)

    def _sync(self) -> None:
        self._algorithm.callbacks("on_evaluate_start")
        self._evaluated_after = self._algorithm.num_training_steps
        self.group.sync_weights(
            self._algorithm.iteration + 1, self._algorithm.env_runners.weights_version, self._seed
        )
        # At once: where evaluations are beside training, the weights will be others.
        if self._estimates is not None:
            self._estimated = self._estimates.metrics(self._algorithm.config, self._seed)

    def _take_over(self, metrics: dict[str, float] | None) -> dict[str, float]:
        """Make metrics the latest evaluation; without any, the last one stays. Returns it."""
        evaluation, group = self._algorithm.evaluation, self.group
        of_weights = {
            "weights_version": group.weights_version,
            "num_training_step_calls": self._evaluated_after,
        }
        if metrics is None and self._estimated:
            metrics = NOTHING.metrics()
        if metrics is not None:
            metrics = {**metrics, **self._estimated}
            # A metric that was there once stays.
            logged = (PREFIX, HISTOGRAMS)
            seen = {name: v for name, v in evaluation.latest.items() if name.startswith(logged)}
            metrics = seen | metrics | of_weights
            self._algorithm.callbacks.end_evaluation(metrics)
            evaluation.latest = metrics
            tell_evaluation(metrics, self._evaluated_after)
        elif not evaluation.latest:
            logger.warning(
                "evaluation: nothing was played within evaluation_sample_timeout_s = %g, and there "
                "is no earlier evaluation: evaluation/episode_return_mean is NaN, and training "
                "goes on",
                self._algorithm.config.evaluation_sample_timeout_s,
            )
            evaluation.latest = NOTHING.metrics() | of_weights
        evaluation.latest |= group.metrics()
        return self._shown()

    def _shown(self) -> dict[str, float]:
        """Its metrics, by their older names, too; a callback has changed them by now."""
        latest = self._algorithm.evaluation.latest
        return {**older_names(latest, _OLDER), **latest}


def _tell_recreated(owner: Callable[[], Any], indices: list[int]) -> None:
    """Tell callbacks that evaluation env runners are there again.

    Args:
        owner: Returns the algorithm.
        indices: Theirs.
    """
    algorithm = owner()
    algorithm.callbacks(
        "on_env_runners_recreated",
        env_runner_group=algorithm.eval_env_runner_group,
        env_runner_indices=indices,
        is_evaluation=True,
    )


def _metrics_of(result: EvaluationResult | None) -> dict[str, float] | None:
    return None if result is None else result.metrics()


def _checked(metrics: Any) -> dict[str, float]:
    """Return what `custom_evaluation_function` returned.

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


def make_evaluation(
    existing: EvaluationGroup | None,
    config: AlgorithmConfig,
    policies: dict[str, Policy],
    module_slots: ModuleSlots,
    video_folder: str | None,
) -> EvaluationGroup:
    """Return what plays evaluations, in this process or over actors.

    Args:
        existing: That of the trial before in this process: actors that fit are used again, others
            end.
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        module_slots: Which module acts in which slot.
        video_folder: Where videos go; None if there are none.
    """
    actors = existing.handed_over(config) if existing is not None else None
    if config.evaluation_num_env_runners == 0:
        return LocalEvaluationGroup(config, policies, module_slots, video_folder)
    group: EvaluationGroup = feature("actors").evaluation_group(
        config, policies, module_slots, video_folder, actors
    )
    return group


class EvaluationFeature(Feature):
    """Plays evaluations."""

    player = Player

    def told_agents(self, config: AlgorithmConfig) -> dict[str, Any]:
        """Return what a policy's metadata say of who acts for whom in a config's evaluations."""
        return {SEVERAL_AGENTS: told_agents(config)}


FEATURE = EvaluationFeature()
