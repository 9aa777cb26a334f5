"""Algorithms by name, imported when asked for, and known to Tune under that name.

The package lists them with its other names: `trainables/__init__.py`.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from importlib import metadata
from pathlib import Path
from typing import Any

from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.lazy_names import names_listed_in
from trainables.core.suggestions import did_you_mean, nearest_names

_LISTED = names_listed_in(Path(__file__).with_name("__init__.py"))
# Of the package's names the algorithms are those whose configs are in the same files.
_MODULES = {name: home for name, home in _LISTED.items() if _LISTED.get(f"{name}Config") == home}
# Those of other libraries, which `core.config.reference` tells what becomes of.
NOT_HERE = (
    "MADDPG Dreamer DreamerV2 PlaNet AlphaZero MuZero LeelaChessZero MAML MBMPO BanditLinUCB "
    "BanditLinTS Bandit SlateQ TD3 DDPG D4PG ApexDDPG REDQ DroQ CrossQ TQC CRR DT TD3BC AWAC A3C "
    "ACER TRPO NPG ACKTR PG VPG REINFORCE PPO1 PPO2 PPG RecurrentPPO PPOLSTM MAPPO AlphaStar "
    "MaskablePPO DDPPO IMPACT DDQN DoubleDQN DuelingDQN SimpleQ C51 QRDQN IQN FQF Rainbow ApexDQN "
    "Apex R2D2 DRQN VDN ARS ES CMAES"
)
_registered: dict[str, Any] = {}  # what Tune knows from this process

try:
    VERSION = metadata.version("tunescape")
except metadata.PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "0+unknown"


def algorithm_names() -> list[str]:
    """Return the names of all algorithms."""
    return sorted(_MODULES)


def algorithm_summary(name: str) -> str:
    """Say what an algorithm is, in a line: its module's docstring, without importing it."""
    spec = importlib.util.find_spec(_MODULES[name])
    if spec is None or spec.origin is None:
        return ""
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def get_algorithm(name: Any) -> Any:
    """Return the class of an algorithm; importing one registers all of them with Tune.

    Args:
        name: A name, or an `Algorithm` subclass, which is returned as it is.

    Raises:
        ConfigError: for an unknown name, with the nearest known ones.
    """
    if isinstance(name, type):
        return name
    own = _registered.get(name)
    if isinstance(own, type):
        return own
    if name not in _MODULES:
        known = ", ".join(algorithm_names())
        words = (
            None
            if _in_other_letters(str(name))
            else feature("reference").whats_become_of(str(name))
        )
        if words is not None:
            raise ConfigError(f"algorithm {name!r}: {words} (known: {known})")
        raise ConfigError(f"algorithm {name!r} is unknown; known: {known}{_hint(str(name))}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def config_class_of(name: str) -> Any:
    """Return an algorithm's config class; of one of ours without importing the algorithm.

    Args:
        name: One of `algorithm_names`.
    """
    own = _registered.get(name)
    if isinstance(own, type):
        return own.config_class  # type: ignore[attr-defined]
    return getattr(importlib.import_module("trainables.settings"), f"{name}Config")


def _hint(name: str) -> str:
    """Return which algorithm was probably meant, or comes nearest, to end an error with."""
    same = _in_other_letters(name)
    if same is not None:
        return did_you_mean([same])
    by_capitals = {known.upper(): known for known in _MODULES}
    near = nearest_names(name.upper(), by_capitals, most=2, cutoff=0.5)
    return did_you_mean([by_capitals[known] for known in near])


def _in_other_letters(name: str) -> str | None:
    """Return the algorithm that is called so but for case and signs between; None: there is none.

    Args:
        name: As people write it, e.g. `ppo` or `dreamer_v3`.
    """
    return next((known for known in _MODULES if _letters(known) == _letters(name)), None)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def name_of(algorithm: type) -> str:
    """Return the name that an algorithm's class or nearest base is known by, or its own."""
    for base in algorithm.__mro__:
        if _MODULES.get(base.__name__) == base.__module__:
            return base.__name__
    return algorithm.__name__


def is_ours(algorithm: type) -> bool:
    """Tell whether a class is an algorithm of this package, or the base of all."""
    return algorithm.__module__.startswith("trainables.")


def registered_class(name: str) -> type | None:
    """Return the class of one's own that was registered and is called `module:qualname`; or None.

    What was a script's `__main__` when it was saved may be a module that is imported now.
    """
    module, _, qualname = name.partition(":")
    for own in _registered.values():
        if not isinstance(own, type) or own.__qualname__ != qualname:
            continue
        if module == own.__module__ or "__main__" in (module, own.__module__):
            return own
    return None


def register_algorithm(algorithm: type) -> type:
    """Make an algorithm of your own known by its class name (usable as a decorator)."""
    _MODULES[algorithm.__name__] = algorithm.__module__
    _register_with_tune(algorithm.__name__, algorithm)
    return algorithm


def register_names() -> None:
    """Make every algorithm known to Tune, without importing it: `tune.Tuner("PPO", …)`.

    And let Tune say what becomes of those that are not here: `tune.Tuner("TD3")`.

    Called where `trainables.algorithm` is imported, and so with any algorithm or config.
    """
    from ray._private import worker
    from ray.tune.registry import TRAINABLE_CLASS, _global_registry

    if worker.global_worker.mode == worker.WORKER_MODE:
        return  # in a trial's own processes the names are known, perhaps as a user's
    for name in _MODULES:
        _register_with_tune(name, _ByName(name))
    # Those that are not here say so. Of a name that nobody registered, Tune tries to find another
    # library's algorithm, and that library's names then take the place of ours.
    for name in NOT_HERE.split():
        if not _global_registry.contains(TRAINABLE_CLASS, name):
            _register_with_tune(name, _ByName(name))


class _ByName:
    """What Tune keeps of an algorithm: read back, it is the class, or an error, only then."""

    def __init__(self, name: str):
        self._name = name

    def __reduce__(self) -> Any:
        return get_algorithm, (self._name,)


def _register_with_tune(name: str, algorithm: type | _ByName) -> None:
    """Let `tune.Tuner("PPO", …)` find ours and not look for another library's."""
    from ray._private import worker

    if not _registered:
        # Tune keeps names in the cluster and forgets them with it: the next one is told again.
        worker._post_init_hooks.append(_tell_the_new_cluster)
    _registered[name] = algorithm
    _tell(name, algorithm)


def _tell_the_new_cluster() -> None:
    """Tell it the names, except those that a user has given to something else since."""
    from ray.tune.registry import TRAINABLE_CLASS, _global_registry

    for name, algorithm in _registered.items():
        if not _global_registry.contains(TRAINABLE_CLASS, name):
            _tell(name, algorithm)


def _tell(name: str, algorithm: type | _ByName) -> None:
    from ray.tune.registry import TRAINABLE_CLASS, _global_registry, register_trainable

    if isinstance(algorithm, type):
        register_trainable(name, algorithm)
    else:
        _global_registry.register(TRAINABLE_CLASS, name, algorithm)
