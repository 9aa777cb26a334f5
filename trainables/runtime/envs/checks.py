"""Checks of a custom environment before training: one error that says what is wrong with it."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from trainables.core.errors import ConfigError
from trainables.core.features import Feature
from trainables.runtime.envs.kinds import (
    answers_for_several,
    derive_it,
    observes_for_several,
)

_STEPS = 3


def check_vector_env(env: VectorEnv, name: str, mask_key: str = "action_mask") -> None:
    """Do as `check_env` for a class of vector environments: arrays with a row for each slot.

    Raises:
        ConfigError: naming the environment and the first thing that is wrong.
    """
    with _named(name), global_randomness_kept():
        _check_vector(env, mask_key)


def check_env(env: gym.Env, name: str, mask_key: str = "action_mask") -> None:
    """Reset an environment and take a few random steps; silent when all is well.

    It is the first slot's own instance: one more might be costly, or refused by a simulator. Global
    random states are left as they were; the environment's own follow from the seed that it is reset
    with before it is trained on.

    Args:
        env: The environment as training steps it.
        name: The name of the environment, for messages.
        mask_key: The key of a Dict observation that says which actions are allowed: only these are
            tried.

    Raises:
        ConfigError: naming the environment and the first thing that is wrong.
    """
    with _named(name), global_randomness_kept():
        _check(env, mask_key)


class _WrongError(Exception):
    """What is wrong, in words."""


class _SeveralAgentsError(Exception):
    """It is an environment of several agents."""


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except _SeveralAgentsError:
        raise derive_it(name) from None
    except _WrongError as error:
        raise ConfigError(
            f"env {name!r} does not keep to gymnasium's API: {error} "
            "(disable_env_checking=True leaves this check out)"
        ) from error.__cause__


def _check_vector(env: VectorEnv, mask_key: str) -> None:
    first = env.reset(seed=0)
    _check_reset(env, first)
    if isinstance(first[0], dict) and mask_key in first[0]:
        return  # which actions are allowed is each slot's own matter
    actions = copy.deepcopy(env.action_space)
    actions.seed(0)
    resets = np.zeros(env.num_envs, bool)
    for _ in range(_STEPS):
        result = env.step(actions.sample())
        if not isinstance(result, tuple) or len(result) != 5:
            raise _WrongError(f"step returns {_shown(result)}, not a tuple of 5")
        _check_observation(env, result[0], "step")
        names = ("reward", "terminated", "truncated")
        for what, values, kinds in zip(names, result[1:4], ("biuf", "b", "b"), strict=True):
            array = np.asarray(values)
            if array.shape != (env.num_envs,) or array.dtype.kind not in kinds:
                raise _WrongError(
                    f"step's {what} is {_shown(values)}, not a "
                    f"{'bool' if kinds == 'b' else 'number'} for each of {env.num_envs} slots"
                )
        is_finite = np.isfinite(np.asarray(result[1], float))
        if not (is_finite | resets).all():  # nobody is rewarded where a slot only resets
            raise _WrongError(f"step's reward is {np.asarray(result[1])}")
        resets = np.asarray(result[2]) | np.asarray(result[3])


def _check(env: gym.Env, mask_key: str) -> None:
    for what in ("observation_space", "action_space"):
        space = getattr(env, what, None)
        if isinstance(space, dict) and all(isinstance(s, spaces.Space) for s in space.values()):
            raise _SeveralAgentsError  # a space for each agent
        if not isinstance(space, spaces.Space):
            raise _WrongError(f"its {what} is {_shown(space)}, not a gymnasium space")
    parameters = inspect.signature(env.unwrapped.reset).parameters
    if "seed" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise _WrongError("reset takes no seed: write reset(self, *, seed=None, options=None)")
    first = env.reset(seed=0)
    _check_reset(env, first)
    obs = first[0]
    actions = copy.deepcopy(env.action_space)
    actions.seed(0)
    for _ in range(_STEPS):
        action = allowed_action(actions, obs, mask_key)
        if action is None:
            return
        result = env.step(action)
        if _check_step(env, result):
            _check_reset(env, env.reset())
            return
        obs = result[0]


def allowed_action(actions: spaces.Space, obs: Any, mask_key: str) -> Any:
    """Draw an action that the observation's mask allows; None if there is none to be drawn."""
    mask = obs.get(mask_key) if isinstance(obs, dict) else None
    if mask is None:
        return actions.sample()
    allowed = np.asarray(mask, np.int8).ravel()
    if not isinstance(actions, spaces.Discrete) or len(allowed) != actions.n:
        return None  # nested masks, and those that the policy will refuse
    return actions.sample(mask=allowed) if allowed.any() else None


def _check_reset(env: gym.Env | VectorEnv, result: Any) -> None:
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise _WrongError(f"reset returns {_shown(result)}, not (observation, info)")
    if observes_for_several(env.observation_space, result[0]):
        raise _SeveralAgentsError
    _check_observation(env, result[0], "reset")


def _check_step(env: gym.Env, result: Any) -> bool:
    """Return whether the episode has ended."""
    if not isinstance(result, tuple) or len(result) != 5:
        returned = (
            f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
        )
        old = ": that was the API of gym" if returned == "4 values" else ""
        raise _WrongError(
            f"step returns {returned}, not (observation, reward, terminated, truncated, info){old}"
        )
    obs, reward, terminated, truncated, info = result
    if answers_for_several(reward, terminated):
        raise _SeveralAgentsError
    _check_observation(env, obs, "step")
    if not isinstance(reward, (int, float, np.number, np.bool_)) and not _is_scalar(reward):
        raise _WrongError(f"step's reward is {_shown(reward)}, not a number")
    if not np.isfinite(float(reward)):
        raise _WrongError(f"step's reward is {float(reward)}")
    for what, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, (bool, np.bool_)):
            raise _WrongError(f"step's {what} is {_shown(flag)}, not a bool")
    if not isinstance(info, dict):
        raise _WrongError(f"step's info is {_shown(info)}, not a dict")
    return bool(terminated or truncated)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "biuf"


def _check_observation(env: gym.Env | VectorEnv, obs: Any, method: str) -> None:
    wrong = why_outside(env.observation_space, obs, "")
    if wrong is not None:
        raise _WrongError(f"{method}'s observation{wrong}")


def why_outside(space: spaces.Space, value: Any, path: str) -> str | None:
    """Return what is wrong with a value of a space, and where in it; None if it is inside."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or set(value) != set(space.keys()):
            keys = sorted(value) if isinstance(value, dict) else _shown(value)
            return f"{path} has the keys {keys}, the space has {sorted(space.keys())}"
        inner = [(space[key], value[key], f"{path}[{key!r}]") for key in space]
        return next(filter(None, (why_outside(*part) for part in inner)), None)
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            return f"{path} is {_shown(value)}, not a tuple of {len(space.spaces)}"
        pairs = enumerate(zip(space.spaces, value, strict=True))
        parts = (why_outside(inside, item, f"{path}[{i}]") for i, (inside, item) in pairs)
        return next(filter(None, parts), None)
    if isinstance(space, spaces.Box):
        return _why_outside_box(space, value, path)
    return None if space.contains(value) else f"{path} {_shown(value)} is not in {space}"


def _why_outside_box(space: spaces.Box, value: Any, path: str) -> str | None:
    if not isinstance(value, (np.ndarray, np.generic)):
        return f"{path} is a {type(value).__name__}, not an array of {space.dtype}"
    if value.shape != space.shape:
        return f"{path} has shape {value.shape}, the space has {space.shape}"
    if not np.can_cast(value.dtype, space.dtype):
        return f"{path} has dtype {value.dtype}, the space has {space.dtype}"
    if value.dtype.kind == "f" and np.isnan(value).any():
        return f"{path} has NaN in it"
    values = np.asarray(value)
    outside = np.argwhere((values < space.low) | (values > space.high))
    if len(outside):
        index = tuple(outside[0].tolist())
        low, high = space.low[index], space.high[index]
        return f"{path} is {values[index]} at {list(index)}, the space has [{low}, {high}] there"
    return None


def _shown(value: Any) -> str:
    """Return a value briefly, with its type."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    text = repr(value)
    kind = type(value).__name__
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({kind})"


@contextmanager
def global_randomness_kept() -> Iterator[None]:
    """Within it global random streams may be used; after it they are as they were."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)


class EnvChecks(Feature):
    """Checks of environments that are none of gymnasium's own."""

    def check_slot(self, env: gym.Env, name: str, mask_key: str) -> None:
        """Check the environment of one slot; see `check_env`."""
        check_env(env, name, mask_key)

    def check_all(self, env: VectorEnv, name: str, mask_key: str) -> None:
        """Check a class of vector environments; see `check_vector_env`."""
        check_vector_env(env, name, mask_key)


FEATURE = EnvChecks()
