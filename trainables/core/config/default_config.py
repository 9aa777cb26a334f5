"""`DEFAULT_CONFIG` of each algorithm's module: its settings as a dict, which older code changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.features import feature


def default_config_of(
    config_class: type[AlgorithmConfig], module: str | None = None
) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, by which `DEFAULT_CONFIG` is a fresh copy each time.

    Args:
        config_class: Whose settings they are.
        module: The name of the module; None: the one that the class is in.
    """
    module = module or config_class.__module__

    def __getattr__(name: str) -> Any:
        if name == "DEFAULT_CONFIG":
            return feature("reference").default_config(config_class)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
