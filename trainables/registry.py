"""Algorithms by name, imported when asked for, and registered with Tune under that name."""

from __future__ import annotations

import difflib
import importlib
from importlib import metadata
from typing import Any

from trainables.core.settings import ConfigError

_MODULES = {
    "APPO": "trainables.appo",
    "DQN": "trainables.dqn",
    "IMPALA": "trainables.impala",
    "PPO": "trainables.ppo",
    "SAC": "trainables.sac",
}
_registered: dict[str, Any] = {}  # what Tune knows from this process

try:
    VERSION = metadata.version("tunescape")
except metadata.PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "0+unknown"


def algorithm_names() -> list[str]:
    """Names of all algorithms."""
    return sorted(_MODULES)


def get_algorithm(name: Any) -> Any:
    """The class of an algorithm, registered with Tune under its name.

    Args:
        name: A name, or an `Algorithm` subclass, which is returned as it is.

    Raises:
        ConfigError: for an unknown name, with the nearest known ones.
    """
    if isinstance(name, type):
        return name
    if name not in _MODULES:
        near = difflib.get_close_matches(str(name).upper(), _MODULES, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ConfigError(
            f"algorithm {name!r} is unknown; known: {', '.join(algorithm_names())}{hint}"
        )
    algorithm = getattr(importlib.import_module(_MODULES[name]), name)
    _register_with_tune(name, algorithm)
    return algorithm


def name_of(algorithm: type) -> str:
    """The name that an algorithm's class, or the nearest base of it, is known by.

    Raises:
        ConfigError: if neither is registered.
    """
    for base in algorithm.__mro__:
        if _MODULES.get(base.__name__) == base.__module__:
            return base.__name__
    raise ConfigError(f"{algorithm.__name__} is not registered: call register_algorithm")


def register_algorithm(algorithm: type) -> type:
    """Make an algorithm of your own known by its class name (usable as a decorator)."""
    _MODULES[algorithm.__name__] = algorithm.__module__
    _register_with_tune(algorithm.__name__, algorithm)
    return algorithm


def _register_with_tune(name: str, algorithm: Any) -> None:
    """So that `tune.Tuner("PPO", …)` finds ours and does not look for another library's."""
    from ray._private import worker
    from ray.tune.registry import register_trainable

    if _registered.get(name) is algorithm:
        return
    if not _registered:
        # Tune keeps names in the cluster and forgets them with it: the next one is told again.
        worker._post_init_hooks.append(_tell_the_new_cluster)
    register_trainable(name, algorithm)
    _registered[name] = algorithm


def _tell_the_new_cluster() -> None:
    from ray.tune.registry import register_trainable

    for name, algorithm in _registered.items():
        register_trainable(name, algorithm)
