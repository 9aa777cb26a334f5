"""What whoever plays a policy's episodes must trust: told beforehand, and refused without.

A policy names the environment that it was trained in. Its name may be code (`module:name`), and a
plain name may be known only where the trainable's module, which registers it, was imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from trainables.core.callables import resolve_callable
from trainables.core.checkpoint import TRAINABLE, load_part
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.settings import CODE
from trainables.core.errors import ConfigError
from trainables.core.policy.calls.loading import checked_options
from trainables.core.trust import Doubt, doubts_of
from trainables.runtime.envs.games.known import is_of_known_package, register
from trainables.runtime.envs.make import is_name_safe, is_tune_name
from trainables.runtime.envs.trust import ENVIRONMENT, environment_doubts
from trainables.runtime.evaluation.agents import SEVERAL_AGENTS

POLICY = "policy"
"""Stem of a policy's file in its folder."""


def needed_trust(folder: str | os.PathLike[str]) -> list[str]:
    """Return what `trust` must name to load a folder's policies and play in their environment.

    Nothing that they name is imported, and no network is built.

    Args:
        folder: A folder with a `policy.json`, or with a folder of that kind for each of several
            policies that play together.

    Returns:
        The entries, which who wrote the folder (`core.own_folders`) need not give; none of a folder
        that is damaged or holds no policy: loading says so.
    """
    folders = _folders(folder)
    doubts = [doubt for each in folders for doubt in stored_doubts(each, known_here=False)]
    doubts += _mapping_doubts(folders)
    return list(dict.fromkeys(str(doubt.entry) for doubt in doubts))


def names_no_environment(folder: str | os.PathLike[str]) -> bool:
    """Tell whether a folder's policies do not say in which environment they play.

    Those that learned from data alone may know none.

    Args:
        folder: See `needed_trust`. Of one that is damaged or holds no policy loading says so.
    """
    for each in _folders(folder):
        try:
            (metadata,) = load_part(each, "policy", ("metadata",))
            return not (metadata.get("evaluation") or metadata).get("env")
        except (ConfigError, AttributeError):
            return False
    return False


def _folders(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the folders of the policies that a folder holds: it is one, or has one for each."""
    path = Path(folder)
    if (path / "policy.json").is_file():
        return [path]
    return sorted(file.parent for file in path.glob("*/policy.json"))


def _mapping_doubts(folders: Sequence[Path]) -> list[Doubt]:
    """Return what needs trust of the settings with which several policies play together."""
    try:
        (metadata,) = load_part(folders[0], "policy", ("metadata",))
        together = {k: v for k, v in metadata[SEVERAL_AGENTS].items() if k != "league"}
        return list(doubts_of(AlgorithmConfig, AlgorithmConfig.check(together)))
    except (ConfigError, LookupError, TypeError, AttributeError):
        return []


def stored_doubts(folder: str | os.PathLike[str], *, known_here: bool = True) -> list[Doubt]:
    """Return what needs trust to load a policy's folder and play in its environment.

    Args:
        folder: A folder with a `policy.json`; of any other there is none.
        known_here: See `playing_doubts`.
    """
    try:
        options, metadata = load_part(Path(folder), POLICY, ("options", "metadata"))
        _, doubts = checked_options(options)
        played = metadata.get("evaluation") or metadata
        told = {key: played[key] for key in ENVIRONMENT if played.get(key) is not None}
        doubts += playing_doubts(AlgorithmConfig.check(told), metadata, known_here=known_here)
    except (ConfigError, LookupError, TypeError, AttributeError):
        return []
    return doubts


def playing_doubts(
    settings: Mapping[str, Any], metadata: Mapping[str, Any], *, known_here: bool = True
) -> list[Doubt]:
    """Return what of the settings that episodes are played with needs trust.

    Args:
        settings: `env`, `env_config` and others of an algorithm, checked.
        metadata: The metadata of the policy.
        known_here: Whether a name that this process knows is known: another one may not have
            imported what registered it.
    """
    doubts = [*doubts_of(AlgorithmConfig, settings, besides=ENVIRONMENT)]
    doubts += environment_doubts(settings)
    registrar = metadata.get(TRAINABLE)
    if isinstance(registrar, str) and _needs_registrar(settings.get("env"), known_here):
        doubts.append(Doubt(TRAINABLE, registrar, CODE, registrar))
    return doubts


def register_environment(env: Any, metadata: Mapping[str, Any]) -> None:
    """Import the trainable's module where only that registers the environment. Trust it first."""
    registrar = metadata.get(TRAINABLE)
    if isinstance(registrar, str) and _needs_registrar(env, known_here=True):
        resolve_callable(registrar)


def _needs_registrar(env: Any, known_here: bool) -> bool:
    """Tell whether a name may be known only where a module of its user was imported."""
    if not isinstance(env, str) or not is_name_safe(env) or env.startswith("envpool:"):
        return False
    if is_tune_name(env):
        return not known_here
    register(env)
    if env not in gym.registry:
        return True
    return not (known_here or is_of_known_package(gym.registry[env]))
