"""Trust in the environment that a checkpoint or a policy names, and in what it is made with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from trainables.core.callables import UntrustedName
from trainables.core.config.environment import ENVPOOL_ARGUMENTS, LIFE_LOSS, PREPROCESS, is_envpool
from trainables.core.config.settings import CODE
from trainables.core.features import feature
from trainables.core.trust import Doubt
from trainables.runtime.envs.kinds import PETTINGZOO
from trainables.runtime.envs.make import is_name_safe, is_tune_name
from trainables.runtime.envs.slots import is_of_known_package

# The settings that are judged here, together.
ENVIRONMENT = ("env", "env_config")

# No path, no module with a dot, no `module:name`, no URL.
_WORD = re.compile(r"[A-Za-z0-9_-]{0,40}")
_OF_ENVPOOL = {*ENVPOOL_ARGUMENTS, LIFE_LOSS, PREPROCESS, "max_episode_steps"}
_WHY_CONFIG = "more than numbers and booleans, which can be folders and modules"
_WHY_ENVPOOL = "arguments of EnvPool, which can be folders and threads"


def environment_doubts(values: Mapping[str, Any], within: str = "") -> Iterator[Doubt]:
    """Yield what of an environment and its `env_config` is not harmless.

    A name is harmless if it imports nothing that the name itself chooses: an id of gymnasium's
    registry, of a known package, or given to `tune.register_env`. An `env_config` is, if it holds
    numbers and booleans alone; with an environment of a known package also plain words, which
    cannot be paths or modules there. Who trusts an environment's code trusts its `env_config`.

    Args:
        values: Settings of a checkpoint, of which `env` and `env_config` are judged.
        within: The path of the dict that they are in, e.g. `evaluation_config.`.
    """
    env, env_config = values.get("env"), values.get("env_config") or {}
    if not isinstance(env, str) or isinstance(env, UntrustedName):  # code: `doubts_of` names it
        return
    if not is_name_safe(env):
        yield Doubt(f"{within}env", env, CODE, env)
    elif is_envpool(env):
        if not (env_config.keys() <= _OF_ENVPOOL and _is_plain(env_config, words=False)):
            yield Doubt(f"{within}env_config", env_config, _WHY_ENVPOOL, f"{within}env_config")
    elif not _is_plain(env_config, words=_is_known(env)):
        yield Doubt(f"{within}env_config", env_config, _WHY_CONFIG, f"{within}env_config")


def _is_known(env: str) -> bool:
    """Tell whether it is of a known package or gymnasium's own: its arguments are data."""
    if is_tune_name(env):  # a user's code is made of it
        return False
    if env.startswith(PETTINGZOO):
        return True
    feature("games").register(env)
    return env in gym.registry and is_of_known_package(gym.registry[env])


def _is_plain(value: Any, *, words: bool) -> bool:
    """Tell whether the only texts in a tree of dicts and lists are words, if these are allowed.

    What else a checkpoint can hold is numbers, and names of code, which are judged by themselves.
    """
    if isinstance(value, dict):
        opens_window = value.get("render_mode") == "human"
        names = [key for key in value if isinstance(key, str)]
        return (
            all(map(_WORD.fullmatch, names))
            and not opens_window
            and all(_is_plain(part, words=words) for part in value.values())
        )
    if isinstance(value, list):
        return all(_is_plain(part, words=words) for part in value)
    if isinstance(value, str) and not isinstance(value, UntrustedName):
        return words and _WORD.fullmatch(value) is not None
    return True
