"""Environments of packages that are known by their ids, and imported where one is asked for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import VectorEnv

from trainables.core.callables import resolve_callable
from trainables.core.config.environment import present_id
from trainables.core.errors import ConfigError
from trainables.core.features import Feature
from trainables.runtime.envs.games import own  # noqa: F401  # registers environments


class Package(NamedTuple):
    """What registers environments.

    Attributes:
        module: Importing it, or calling its `register_envs`, registers them.
        extra: The extra of this project that installs it.
        creator: `module:name`, looked up where an environment is asked for, of what gives the
            creator of an id; empty: gymnasium makes it.
        needs: What else the extra installs that the module imports.
    """

    module: str
    extra: str
    creator: str = ""
    needs: tuple[str, ...] = ()

    @property
    def library(self) -> str:
        """The package that is imported."""
        return self.module.partition(".")[0]


_GAMES = "trainables.runtime.envs.games"

# By what their ids begin with.
PACKAGES: dict[str, Package] = {
    "ALE/": Package("ale_py", "atari", f"{_GAMES}.atari:creator_of"),
    "MinAtar/": Package("minatar.gym", "minatar"),
    "MiniGrid-": Package("minigrid", "minigrid", f"{_GAMES}.minigrid_mission:GridWorld"),
    "BabyAI-": Package("minigrid", "minigrid", f"{_GAMES}.minigrid_mission:GridWorld"),
    # That of Shimmy which is imported only with the suite: without it, it registers nothing.
    "dm_control/": Package(
        "shimmy.dm_control_compatibility",
        "dm-control",
        f"{_GAMES}.dm_control:ControlTask",
        needs=("dm_control", "dm_env"),
    ),
}

# Of gymnasium's own environments that need a library, by the part of gymnasium that they lie in:
# the library, and the extra of this project that installs it.
_OF_GYMNASIUM = {"mujoco": ("MuJoCo", "mujoco"), "box2d": ("Box2D", "box2d")}


def is_of_known_package(spec: EnvSpec) -> bool:
    """Tell whether an environment is one of gymnasium's own or of a known package.

    These are trusted without being named, and not checked before they are stepped.
    """
    entry, libraries = spec.entry_point, {package.library for package in PACKAGES.values()}
    if isinstance(entry, partial):  # Shimmy registers those
        entry = entry.func.__module__
    if not isinstance(entry, str):
        return False
    return re.split("[.:]", entry)[0] in {"gymnasium", "trainables", *libraries}


def missing_library(env_id: object) -> ConfigError | None:
    """Return the error of a gymnasium environment whose library is not installed, else None."""
    spec = gym.registry.get(env_id) if isinstance(env_id, str) else None
    entry = spec.entry_point if spec is not None else None
    parts = entry.split(".") if isinstance(entry, str) else []
    found = [_OF_GYMNASIUM[part] for part in parts if part in _OF_GYMNASIUM]
    return _not_installed(str(env_id), *found[0]) if found else None


def dropped_version(env_id: object) -> ConfigError | None:
    """Return the error of an id that gymnasium registers only to say it is gone, else None."""
    spec = gym.registry.get(env_id) if isinstance(env_id, str) else None
    module = getattr(spec.entry_point, "__module__", "") if spec is not None else ""
    if spec is None or not module.startswith("gymnasium."):
        return None
    kin = [s for s in gym.registry.values() if (s.namespace, s.name) == (spec.namespace, spec.name)]
    newest = max(kin, key=lambda s: s.version or 0)
    return ConfigError(f"env {env_id!r} is no longer in gymnasium; write {newest.id!r}")


def _not_installed(env_id: str, library: str, extra: str) -> ConfigError:
    return ConfigError(
        f"env {env_id!r} needs the library {library}, which is not installed: "
        f"pip install 'tunescape[{extra}]'"
    )


def known_creator(env_id: str) -> Callable[..., gym.Env] | None:
    """Import the package of an id, if it is a known one.

    Returns:
        What makes the environment of an `EnvContext`, where gymnasium alone does not do.

    Raises:
        ConfigError: if the package is not installed.
    """
    present, _ = present_id(env_id)
    package = register(present)
    if package is None:
        return None
    if not package.creator or present not in gym.registry:
        return None
    creator: Callable[..., gym.Env] = resolve_callable(package.creator)(env_id)
    return creator


def register(env_id: str) -> Package | None:
    """Have the package of an id register it, also in a process that has not done so yet.

    Returns:
        The package, or None if the id is of no known one.
    """
    package = next((p for start, p in PACKAGES.items() if env_id.startswith(start)), None)
    if package is not None and env_id not in gym.registry:
        _import(env_id, package)
    return package


def _import(env_id: str, package: Package) -> None:
    try:
        module: Any = importlib.import_module(package.module)
    except ModuleNotFoundError as error:
        if error.name not in (package.library, *package.needs):  # something else is broken
            raise
        raise _not_installed(env_id, error.name, package.extra) from None
    if env_id not in gym.registry and hasattr(module, "register_envs"):
        module.register_envs()


class Games(Feature):
    """Environments of other packages, by their ids, and this project's own ones."""

    def creator(self, env_id: str) -> Callable[..., gym.Env] | None:
        """Return what makes the environment of an id, where gymnasium alone does not do."""
        return known_creator(env_id)

    def is_of_known_package(self, spec: EnvSpec) -> bool:
        """Tell whether an environment is of a known package."""
        return is_of_known_package(spec)

    def register(self, env_id: str) -> None:
        """Have the package of an id register it, if it is a known one."""
        register(env_id)

    def why_not_made(self, env_id: object, error: Exception) -> ConfigError | None:
        """Return a better error for an id of gymnasium's that cannot be made, if there is one.

        Args:
            env_id: The setting `env`.
            error: What gymnasium raised.
        """
        if isinstance(error, DependencyNotInstalled):
            return missing_library(env_id)
        return dropped_version(env_id)

    def make_envpool(self, env_id: str, env_config: dict[str, Any], num_envs: int) -> VectorEnv:
        """Return an environment of EnvPool."""
        from trainables.runtime.envs.games.envpool import make_envpool

        return make_envpool(env_id, env_config, num_envs)


FEATURE = Games()
