"""State of vector environments, so that a resumed run goes on in the middle of an episode.

An environment offers `get_state()` (a tree of numbers, strings and arrays) and `set_state(state)`
anywhere below its wrappers. For gymnasium's classic control both are provided here.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import (
    OrderEnforcing,
    PassiveEnvChecker,
    RecordEpisodeStatistics,
    TimeLimit,
    TransformAction,
    TransformObservation,
    TransformReward,
)

from trainables.core.data.stored import of_shape

# What a wrapper remembers between steps. Those with nothing can be passed over.
_WRAPPER_STATE: dict[type, tuple[str, ...]] = {
    TimeLimit: ("_elapsed_steps",),
    OrderEnforcing: ("_has_reset",),
    PassiveEnvChecker: (),
    RecordEpisodeStatistics: ("episode_returns", "episode_lengths"),
    TransformAction: (),
    TransformObservation: (),
    TransformReward: (),
}
_CLASSIC_CONTROL = "gymnasium.envs.classic_control"
_CLASSIC_STATE = ("state", "steps_beyond_terminated", "last_u")
_NATIVE_CARTPOLE_STATE = ("state", "steps", "prev_done", "low", "high")


def get_env_state(env: Any) -> dict[str, Any] | None:
    """Return the state of all slots of a vector environment, None if some part cannot give its."""
    if isinstance(env, CartPoleVectorEnv):
        return {
            "attributes": _get_attributes(env, _NATIVE_CARTPOLE_STATE),
            "random": env.np_random.bit_generator.state,
        }
    if callable(getattr(env, "get_state", None)):
        own = env.get_state()
        return None if own is None else {"own": own}
    if isinstance(env, SyncVectorEnv):
        slots = [get_slot_state(slot) for slot in env.envs]
        if any(slot is None for slot in slots):
            return None
        return {"slots": slots, "autoreset": np.array(env._autoreset_envs)}
    return None


def set_env_state(env: Any, state: dict[str, Any]) -> None:
    """Put `get_env_state`'s state into an environment made in the same way and once reset."""
    if isinstance(env, CartPoleVectorEnv):
        _set_attributes(env, state["attributes"], _NATIVE_CARTPOLE_STATE)
        _set_random(env, state["random"])
    elif "own" in state:
        env.set_state(state["own"])
    else:
        for slot, slot_state in zip(env.envs, state["slots"], strict=True):
            set_slot_state(slot, slot_state)
        env._autoreset_envs[:] = state["autoreset"]


def get_slot_state(env: gym.Env) -> list[dict[str, Any]] | None:
    """Return the state of each layer of one slot, from the outermost wrapper to the environment.

    None if some layer cannot give its own.
    """
    layers = []
    for layer in _layers(env):
        if _has_own_state(layer):
            state: dict[str, Any] = {"own": layer.get_state()}
        else:
            names = _attributes_of(layer)
            if names is None:
                return None
            state = {"attributes": _get_attributes(layer, names)}
        if not isinstance(layer, gym.Wrapper):
            # The generator of gymnasium.Env is part of the state, also where get_state forgets it.
            state["random"] = layer.np_random.bit_generator.state
        layers.append(state)
    return layers


def set_slot_state(env: gym.Env, states: list[dict[str, Any]]) -> None:
    """Put `get_slot_state`'s state into an environment made in the same way and once reset."""
    for layer, state in zip(_layers(env), states, strict=True):
        if "random" in state:
            _set_random(layer, state["random"])
        if "own" in state:
            layer.set_state(state["own"])
        else:
            _set_attributes(layer, state["attributes"], _attributes_of(layer))


def _layers(env: gym.Env) -> list[Any]:
    layers: list[Any] = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _has_own_state(layer: Any) -> bool:
    # Looked up on the class: gymnasium's wrappers pass attribute lookups on to what they wrap.
    return callable(getattr(type(layer), "get_state", None)) and callable(
        getattr(type(layer), "set_state", None)
    )


def _attributes_of(layer: Any) -> tuple[str, ...] | None:
    """Return what a layer without `get_state` remembers; None if that is not known."""
    if not isinstance(layer, gym.Wrapper):
        is_classic = type(layer).__module__.startswith(_CLASSIC_CONTROL)
        return _CLASSIC_STATE if is_classic else None
    is_stock = type(layer).__module__.startswith("gymnasium.")  # a subclass may remember
    names = (names for kind, names in _WRAPPER_STATE.items() if isinstance(layer, kind))
    return next(names, None) if is_stock else None


def _get_attributes(owner: Any, names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: owner.__dict__[name] for name in names if name in owner.__dict__}
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in found.items()}


def _set_attributes(owner: Any, attributes: dict[str, Any], names: tuple[str, ...] | None) -> None:
    for name, value in attributes.items():
        if name not in (names or ()):  # any other one may decide what it does
            raise _checkpoint_error(f"{name!r} is no state of {type(owner).__name__}")
        if isinstance(value, np.ndarray):
            own = owner.__dict__.get(name)
            value = of_shape(own, value, name) if isinstance(own, np.ndarray) else value.copy()
        setattr(owner, name, value)


def _set_random(env: Any, state: dict[str, Any]) -> None:
    kind = getattr(np.random, state["bit_generator"], None)
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise _checkpoint_error(f"{state['bit_generator']!r} is no bit generator of numpy")
    bit_generator = kind()
    bit_generator.state = state
    env.np_random = np.random.Generator(bit_generator)


def _checkpoint_error(text: str) -> Exception:
    # Not at the top: it imports torch, and a remote slot's process does without.
    from trainables.core.checkpoint import CheckpointError

    return CheckpointError(text)
