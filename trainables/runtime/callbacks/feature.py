"""Callbacks as a feature: what calls hooks, and what those of an algorithm may do to results."""

from __future__ import annotations

import math
import weakref
from numbers import Real
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.features import Feature
from trainables.runtime.callbacks.callbacks import Call, CallbackError, CallbackSet
from trainables.runtime.callbacks.custom_metrics import CustomMetrics, MetricsLogger
from trainables.runtime.callbacks.episodes import EpisodeHooks
from trainables.runtime.callbacks.hooks import AlgorithmHooks


class AlgorithmCallbacks(AlgorithmHooks):
    """Calls the algorithm's hooks, and keeps what they log.

    Args:
        algorithm: What hooks get.
        config: Its config.
        metrics: The metrics that what is logged goes to.
    """

    def __init__(self, algorithm: Any, config: AlgorithmConfig, metrics: CustomMetrics):
        super().__init__(metrics)
        self.hooks = CallbackSet(config)
        # In a circle of references an algorithm, its buffers and networks included, would outlive
        # its last user until Python's collector happens to come by.
        self._algorithm = weakref.ref(algorithm)
        self._logger = MetricsLogger()

    def __call__(self, hook: str, **arguments: Any) -> None:
        """Call a hook of the algorithm's."""
        for call in self.hooks.calls(hook):
            self._run(call, arguments)

    def _run(self, call: Call, arguments: dict[str, Any]) -> None:
        call({"algorithm": self._algorithm(), "metrics_logger": self._logger, **arguments})
        self._metrics.add(self._logger.take())

    def end_iteration(self, result: dict[str, Any]) -> None:
        """Let `on_train_result` change a result, which gets all that was logged.

        What it has once added stays in the results that follow: Tune's users stop and plot by it.

        Raises:
            CallbackError: naming what it may not do.
        """
        if self.hooks.has("on_train_result"):
            self._change("on_train_result", result, result=result)
            result |= self._metrics.metrics()
        super().end_iteration(result)

    def end_evaluation(self, metrics: dict[str, Any]) -> None:
        """Let `on_evaluate_end` change an evaluation's metrics.

        Raises:
            CallbackError: naming what it may not do.
        """
        if self.hooks.has("on_evaluate_end"):
            self._change("on_evaluate_end", metrics, evaluation_metrics=metrics)

    def _change(self, hook: str, metrics: dict[str, Any], **arguments: Any) -> None:
        added = self._added.setdefault(hook, {})
        for call in self.hooks.calls(hook):
            before = dict(metrics)
            self._run(call, arguments)
            _check_change(call.name, before, metrics)
            added |= {name: metrics[name] for name in metrics.keys() - before.keys()}
        for name, value in added.items():
            metrics.setdefault(name, value)


def _check_change(callback: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise unless a callback has only set finite numbers."""
    for name in before.keys() - after.keys():
        raise CallbackError(f"callback {callback} removed {name!r}; what Tune has seen must stay")
    for name, value in after.items():
        if name in before and value is before[name]:
            continue
        if not isinstance(name, str) or not isinstance(value, Real) or not math.isfinite(value):
            raise CallbackError(
                f"callback {callback} set {name!r} to {value!r}; only names with finite numbers "
                "can be in a result"
            )


class CallbacksFeature(Feature):
    """Calls the hooks of users' callbacks."""

    hooks_of = CallbackSet
    algorithm_hooks = AlgorithmCallbacks
    episode_hooks = EpisodeHooks


FEATURE = CallbacksFeature()
