"""What calls the hooks of callbacks, and nothing where a config names no callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainables.core.config.callbacks import CALLBACK_SETTINGS
from trainables.core.config.config import AlgorithmConfig
from trainables.core.features import feature
from trainables.runtime.callbacks.custom_metrics import CustomMetrics, MetricsLogger

EPISODE_HOOKS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


class Hooks:
    """The hooks of a config without callbacks; `CallbackSet` calls those that there are.

    Attributes:
        objects: An object of each class of callbacks.
    """

    objects: Sequence[Any] = ()

    def has(self, *hooks: str) -> bool:
        """Tell whether any of these hooks is overridden."""
        return False

    def calls(self, hook: str) -> Sequence[Any]:
        """Return what overrides a hook, in order."""
        return ()

    def __call__(self, hook: str, **arguments: Any) -> None:
        """Call a hook of all callbacks, in order."""


class AlgorithmHooks:
    """The hooks of an algorithm without callbacks; `AlgorithmCallbacks` calls those that there are.

    Args:
        metrics: The metrics that what is logged goes to.
    """

    def __init__(self, metrics: CustomMetrics):
        self._metrics = metrics
        self._added: dict[str, Any] = {}  # to results by hooks, as it was last

    def __call__(self, hook: str, **arguments: Any) -> None:
        """Call a hook of the algorithm's."""

    def end_iteration(self, result: dict[str, Any]) -> None:
        """Let `on_train_result` change a result."""
        self._metrics.next_iteration()

    def end_evaluation(self, metrics: dict[str, Any]) -> None:
        """Let `on_evaluate_end` change an evaluation's metrics."""

    def get_state(self) -> dict[str, Any]:
        """Return what hooks have added to results."""
        return {hook: dict(added) for hook, added in self._added.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self._added = {hook: dict(added) for hook, added in state.items()}


def has_callbacks(config: AlgorithmConfig) -> bool:
    """Tell whether a config names any callbacks."""
    return any(config[name] for name in CALLBACK_SETTINGS)


def hooks_of(config: AlgorithmConfig) -> Hooks:
    """Return what calls the hooks of a config's callbacks.

    Raises:
        ConfigError: naming what is no callback.
        CallbackError: if a class cannot be made.
    """
    if not has_callbacks(config):
        return Hooks()
    made: Hooks = feature("callbacks").hooks_of(config)
    return made


def algorithm_hooks(
    algorithm: Any, config: AlgorithmConfig, metrics: CustomMetrics
) -> AlgorithmHooks:
    """Return what calls the hooks of an algorithm.

    Args:
        algorithm: What hooks get.
        config: Its config.
        metrics: The metrics that what is logged goes to.
    """
    if not has_callbacks(config):
        return AlgorithmHooks(metrics)
    made: AlgorithmHooks = feature("callbacks").algorithm_hooks(algorithm, config, metrics)
    return made


def episode_hooks(
    callbacks: Hooks | None,
    logger: MetricsLogger,
    policies: Mapping[str, Any],
    slots_of: Mapping[str, np.ndarray],
    env: Any,
    env_runner: Any,
    *,
    is_evaluation: bool,
) -> Any:
    """Return the `EpisodeHooks` of slots; None if nobody overrides one, so nobody pays."""
    if callbacks is None or not callbacks.has(*EPISODE_HOOKS):
        return None
    return feature("callbacks").episode_hooks(
        callbacks, logger, policies, slots_of, env, env_runner, is_evaluation
    )
