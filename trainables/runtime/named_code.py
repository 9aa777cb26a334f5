"""Whether the code that a config names is what its settings take: seen before a trial is made."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn

from trainables.core.callables import resolve_callable, resolve_function
from trainables.core.config.callbacks import HOOKS, entries
from trainables.core.config.config import CONNECTOR_SETTINGS, AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.features import feature_settings
from trainables.core.learning.learner import learner_type
from trainables.runtime.callbacks.callbacks import callbacks_type, hook_call
from trainables.runtime.sampling.env_runner import check_runner_class

_FUNCTIONS = ("env_task_fn", "custom_evaluation_function", "observation_fn")


def check_named_code(config: AlgorithmConfig) -> None:
    """Import the code that a config names, and see that it is of the right kind. Nothing is called.

    Raises:
        ConfigError: naming the setting, what it names, and what is allowed.
    """
    for entry in entries(config.callbacks_class):
        callbacks_type(entry)
    for hook in HOOKS:
        for entry in entries(config[hook]):
            hook_call(hook, entry)
    check_runner_class(config)
    learner_type(config.learner_class)
    model: Any = config.resolve().model.custom_model
    if model is not None:
        found = resolve_callable(model) if isinstance(model, str) else model
        if not (inspect.isclass(found) and issubclass(found, nn.Module)):
            raise ConfigError(
                f"custom_model = {model!r} is not allowed; allowed: a class of torch.nn.Module"
            )
    for name, entry in _functions(config):
        resolve_function(name, entry, "a function")
    if config.policy_mapping_fn is not None or config.policies_to_train is not None:
        feature_settings("agents").find_functions(config)


def _functions(config: AlgorithmConfig) -> Iterator[tuple[str, Any]]:
    """Yield the settings that take functions, each with what it gives."""
    for name in (*_FUNCTIONS, *CONNECTOR_SETTINGS):
        for entry in entries(config[name]):
            yield name, entry.get("type") if isinstance(entry, dict) else entry
