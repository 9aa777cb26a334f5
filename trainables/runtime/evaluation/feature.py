"""How an algorithm evaluates: between training iterations, or beside them."""

from __future__ import annotations

import math
import numbers
import weakref
from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import Any, Protocol

import numpy as np

from trainables.core.callables import resolve_callable
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import OLDER_EVALUATED, older_names
from trainables.runtime.callbacks.custom_metrics import HISTOGRAMS, PREFIX
from trainables.runtime.callbacks.hooks import AlgorithmHooks
from trainables.runtime.evaluation.group import EvaluationGroup
from trainables.runtime.evaluation.result import NOTHING, EvaluationResult
from trainables.runtime.metrics import Timers
from trainables.runtime.offline.estimates import OfflineEstimates
from trainables.runtime.sampling.group import EnvRunnerGroup
from trainables.runtime.trial_log import tell_evaluation

_OLDER = {
    old.removeprefix("evaluation/"): new.removeprefix("evaluation/")
    for old, new in OLDER_EVALUATED.items()
}


class Evaluated(Protocol):
    """What an evaluation needs of the algorithm that it is of."""

    config: AlgorithmConfig
    callbacks: AlgorithmHooks
    env_runners: EnvRunnerGroup
    policies: dict[str, Policy]
    eval_env_runner_group: EvaluationGroup
    timers: Timers
    num_training_steps: int

    @property
    def iteration(self) -> int:
        """Training iterations so far."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Evaluate now."""
        ...


class Evaluation:
    """The evaluations of an algorithm, between its training iterations or beside them.

    Neither training's random streams nor filter statistics are touched, and every evaluation plays
    on the same seeds, so that two of them differ by the policy alone.

    Args:
        algorithm: Whose policies are evaluated, by its `eval_env_runner_group`.
        seed: What every evaluation is seeded by.

    Attributes:
        seed: As given; a resumed run has that of the run that it goes on with.
        latest: The metrics of the last evaluation; {} before the first.
    """

    def __init__(self, algorithm: Evaluated, seed: np.random.SeedSequence):
        # Weak, or memory would be free only when the garbage collector comes by.
        self._owner = weakref.ref(algorithm)
        self.seed = seed
        self.latest: dict[str, float] = {}
        self._evaluated_after = 0
        self._estimates = OfflineEstimates(algorithm.config, algorithm.policies)
        self._estimated: dict[str, float] = {}
        function = algorithm.config.custom_evaluation_function
        self._function: Callable[..., Any] | None = (
            resolve_callable(function) if isinstance(function, str) else function
        )
        self._group.on_recreated = self._recreated

    @property
    def _algorithm(self) -> Evaluated:
        owner = self._owner()
        if owner is None:
            raise ReferenceError("the algorithm of this evaluation is gone")
        return owner

    @property
    def _group(self) -> EvaluationGroup:
        return self._algorithm.eval_env_runner_group

    def _recreated(self, indices: list[int]) -> None:
        self._algorithm.callbacks(
            "on_env_runners_recreated",
            env_runner_group=self._group,
            env_runner_indices=indices,
            is_evaluation=True,
        )

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
            group = self._group
            if not plays:
                metrics: dict[str, float] | None = {}
            elif self._function is None:
                played = group.play() if duration_fn is None else group.play_until(duration_fn)
                metrics = _metrics_of(played)
            else:
                group.foreach_env_runner(methodcaller("begin_samples", self.seed))
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
                self._group.begin()

    def evaluate_if_due(self) -> dict[str, float]:
        """Return the metrics of the evaluation that belongs to this iteration's result."""
        if self._group.is_running:
            with self._algorithm.timers("evaluate"):
                metrics = _metrics_of(self._group.collect())
            return self._take_over(metrics)
        if self._is_due():
            return self._algorithm.evaluate()  # which a subclass may have its own way to do
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
        is_first = self._algorithm.config.always_attach_evaluation_results and not self.latest
        return is_first or (self._algorithm.iteration + 1) % interval == 0

    def _sync(self) -> None:
        self._algorithm.callbacks("on_evaluate_start")
        self._evaluated_after = self._algorithm.num_training_steps
        self._group.sync_weights(
            self._algorithm.iteration + 1, self._algorithm.env_runners.weights_version, self.seed
        )
        # At once: where evaluations are beside training, the weights will be others.
        self._estimated = self._estimates.metrics(self._algorithm.config, self.seed)

    def _take_over(self, metrics: dict[str, float] | None) -> dict[str, float]:
        """Make metrics the latest evaluation; without any, the last one stays. Returns it."""
        group = self._group
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
            seen = {name: v for name, v in self.latest.items() if name.startswith(logged)}
            metrics = seen | metrics | of_weights
            self._algorithm.callbacks.end_evaluation(metrics)
            self.latest = metrics
            tell_evaluation(metrics, self._evaluated_after)
        elif not self.latest:
            logger.warning(
                "evaluation: nothing was played within evaluation_sample_timeout_s = %g, and there "
                "is no earlier evaluation: evaluation/episode_return_mean is NaN, and training "
                "goes on",
                self._algorithm.config.evaluation_sample_timeout_s,
            )
            self.latest = NOTHING.metrics() | of_weights
        self.latest |= group.metrics()
        return self._shown()

    def _shown(self) -> dict[str, float]:
        """Its metrics, by their older names, too; a callback has changed them by now."""
        return {**older_names(self.latest, _OLDER), **self.latest}


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
