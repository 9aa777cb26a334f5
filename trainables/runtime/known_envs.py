"""Environments of packages that are known by their ids, and imported where one is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from trainables.core.settings import ConfigError


class Package(NamedTuple):
    """What registers environments.

    Attributes:
        module: Importing it, or calling its `register_envs`, registers them.
        extra: Of this project, that installs it.
        creator: Makes an environment of an id; None: gymnasium does.
    """

    module: str
    extra: str
    creator: Callable[[str], Callable[..., gym.Env]] | None = None


def _grid_world(env_id: str) -> Callable[..., gym.Env]:
    from trainables.runtime.mission import GridWorld

    return GridWorld(env_id)


def _atari_game(env_id: str) -> Callable[..., gym.Env]:
    from trainables.runtime.atari import AtariGame

    return AtariGame(env_id)


# By what their ids begin with.
PACKAGES: dict[str, Package] = {
    "ALE/": Package("ale_py", "atari", _atari_game),
    "MinAtar/": Package("minatar.gym", "minatar"),
    "MiniGrid-": Package("minigrid", "minigrid", _grid_world),
    "BabyAI-": Package("minigrid", "minigrid", _grid_world),
}


def known_creator(env_id: str) -> Callable[..., gym.Env] | None:
    """Import the package of an id, if it is a known one.

    Returns:
        What makes the environment of an `EnvContext`, where gymnasium alone does not do.

    Raises:
        ConfigError: if the package is not installed.
    """
    package = register(env_id)
    if package is None:
        return None
    return package.creator(env_id) if package.creator and env_id in gym.registry else None


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
        library = package.module.partition(".")[0]
        if error.name != library:  # something else is broken
            raise
        raise ConfigError(
            f"env {env_id!r} needs the library {library}, which is not installed: "
            f"pip install 'tunescape[{package.extra}]'"
        ) from None
    if env_id not in gym.registry and hasattr(module, "register_envs"):
        module.register_envs()
