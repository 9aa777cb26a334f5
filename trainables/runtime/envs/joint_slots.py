"""`joint_slots`: the slots of several vector environments, stepped as one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.spaces import Dict, Tuple
from gymnasium.vector import SyncVectorEnv, VectorEnv

_STATE = ("state", "steps", "prev_done")
# What differs between equal environments.
_OWN = (*_STATE, "num_envs", "action_space", "observation_space", "_np_random", "_np_random_seed")


class JointSlots(Protocol):
    """The slots of K vector environments of N slots each; slot n of member k is k N + n.

    Attributes:
        failures: What members' environments raised, by their number: they are stepped no more.
    """

    failures: dict[int, Exception]

    def load(self) -> None:
        """Take over where the members' environments are."""

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Step all slots, `[K N, …]`; returns what a vector environment does, but for infos."""

    def store(self) -> None:
        """Leave the members' environments where the slots are."""


def joint_slots(envs: Sequence[VectorEnv]) -> JointSlots | None:
    """Return the slots of equal environments that can be stepped at once; None: there is no way.

    Args:
        envs: One of each member.
    """
    if all(type(env) is CartPoleVectorEnv for env in envs) and _alike(envs):
        return JointCartPole(envs)  # type: ignore[arg-type]
    if all(type(env) in (SyncVectorEnv, CartPoleVectorEnv) for env in envs) and not any(
        isinstance(space, (Dict, Tuple))
        for env in envs
        for space in (env.single_observation_space, env.single_action_space)
    ):
        return SlotsInTurn(envs)
    return None


def _alike(envs: Sequence[Any]) -> bool:
    """Tell whether environments differ in nothing but their state and their random streams."""
    first = {name: value for name, value in vars(envs[0]).items() if name not in _OWN}
    return all(
        env.num_envs == envs[0].num_envs
        and all(_equal(vars(env).get(name), value) for name, value in first.items())
        for env in envs
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


class SlotsInTurn:
    """Environments that are stepped one after the other, as nothing is known of how they step.

    Args:
        envs: Those of the members, once reset, of the same spaces of one leaf.

    Attributes:
        at: The member whose turn it is; None if it is nobody's.
        failures: By member what its environment raised.
    """

    def __init__(self, envs: Sequence[VectorEnv]):
        self._envs = list(envs)
        self._width = self._envs[0].num_envs
        self._last: list[Any] = [None] * len(self._envs)
        self.failures: dict[int, Exception] = {}
        self.at: int | None = None

    def load(self) -> None:
        self.failures = {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        for k, env in enumerate(self._envs):
            if k in self.failures:
                continue
            self.at = k
            try:
                self._last[k] = env.step(actions[k * self._width : (k + 1) * self._width])[:4]
            except (Exception, SystemExit) as error:
                self.failures[k] = _survived(error)
                self._last[k] = self._last[k] or self._nothing(env)
        self.at = None
        obs, rewards, terminated, truncated = zip(*self._last, strict=True)
        return tuple(map(np.concatenate, (obs, rewards, terminated, truncated)))  # type: ignore[return-value]

    def store(self) -> None:
        pass  # they are where they are

    def _nothing(self, env: VectorEnv) -> tuple[np.ndarray, ...]:
        """Return what stands for an environment that failed at once."""
        space, width = env.single_observation_space, self._width
        obs = np.zeros((width, *(space.shape or ())), space.dtype)
        return obs, np.zeros(width), np.zeros(width, bool), np.zeros(width, bool)


def _survived(error: Exception | SystemExit) -> Exception:
    """Return what a member is to raise: the process is the others', too."""
    if isinstance(error, SystemExit):
        return RuntimeError(f"an environment called sys.exit({error.code!r})")
    return error


class JointCartPole:
    """Gymnasium's vector CartPole over the slots of K of them, each with its own random stream.

    Args:
        envs: Those of the members, once reset.
    """

    def __init__(self, envs: Sequence[CartPoleVectorEnv]):
        self._envs = list(envs)
        self.failures: dict[int, Exception] = {}
        first = self._envs[0]
        self._width = first.num_envs
        self._env: Any = CartPoleVectorEnv(num_envs=self._width * len(self._envs))
        for name, value in vars(first).items():
            if name not in _OWN:
                setattr(self._env, name, value)
        vars(self._env)["_np_random"] = SimpleNamespace(uniform=self._drawn)

    def load(self) -> None:
        self._env.state = np.concatenate([env.state for env in self._envs], axis=1)
        self._env.steps = np.concatenate([env.steps for env in self._envs])
        self._env.prev_done = np.concatenate([env.prev_done for env in self._envs])

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        obs, rewards, terminated, truncated, _ = self._env.step(actions)
        return obs, rewards, terminated, truncated

    def store(self) -> None:
        for env, place in self._places():
            env.state = self._env.state[:, place].copy()
            env.steps, env.prev_done = (
                self._env.steps[place].copy(),
                self._env.prev_done[place].copy(),
            )

    def _drawn(self, low: Any, high: Any, size: tuple[int, int]) -> np.ndarray:
        """Draw the states of slots that begin an episode, each from its own member's stream."""
        if not size[1]:
            return np.empty(size)
        parts = []
        for env, place in self._places():
            count = int(np.count_nonzero(self._env.prev_done[place]))
            if count:
                parts.append(env.np_random.uniform(low=low, high=high, size=(size[0], count)))
        return np.concatenate(parts, axis=1)

    def _places(self) -> Any:
        width = self._width
        return ((env, slice(k * width, (k + 1) * width)) for k, env in enumerate(self._envs))
