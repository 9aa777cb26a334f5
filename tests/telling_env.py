"""Slots that tell in every observation where it comes from, and note what really happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from trainables.core.data.layout import ObservationLayout
from trainables.runtime.envs.sub_environment import RESTARTS
from trainables.runtime.offline.episode import DataSpaces

Box, Dict, Discrete = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Discrete
WHERE = Box(0, 1e6, (4,), np.float32)  # env runner, slot, episode, step

Key = tuple[int, int, int]
"""Env runner, slot and episode."""


class Happened(NamedTuple):
    """What happened in one episode, by the environment's own account."""

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool


# Observation and action space, and an observation for `WHERE` rows [N, 4].
KINDS: dict[str, tuple[gym.Space, gym.Space, Callable[[np.ndarray], Any]]] = {
    "plain": (WHERE, Discrete(2), lambda where: where),
    "continuous": (
        Box(0, 1e6, (4,), np.float64),
        Box(np.array([-2, 0], np.float32), np.array([1, 5], np.float32)),
        lambda where: where / 3 + 0.0,
    ),
    "nested": (
        Dict(
            {
                "image": Box(0, 255, (3, 3, 1), np.uint8),
                "told": gym.spaces.Tuple((WHERE, Discrete(8, start=-2))),
            }
        ),
        Dict({"push": Box(-2, 1, (2,), np.float32), "which": gym.spaces.MultiDiscrete([2, 3])}),
        lambda where: {
            "image": np.tile(where[:, 3].astype(np.uint8)[:, None, None, None], (1, 3, 3, 1)),
            "told": (where, where[:, 3].astype(np.int64) % 8 - 2),
        },
    ),
    "tree": (
        Dict({"told": gym.spaces.Tuple((WHERE, Discrete(8, start=-2)))}),
        Dict({"push": Box(-2, 1, (2,), np.float32), "which": Discrete(3)}),
        lambda where: {"told": (where, where[:, 3].astype(np.int64) % 8 - 2)},
    ),
    "masked": (
        Dict({"action_mask": Box(0, 1, (3,), np.int8), "where": WHERE}),
        Discrete(3, start=1),
        lambda where: {
            "action_mask": np.eye(3, dtype=np.int8)[where[:, 3].astype(int) % 3],
            "where": where,
        },
    ),
}


def where_of(kind: str, obs: np.ndarray) -> np.ndarray:
    """The `WHERE` row of a stored observation."""
    if kind == "plain":
        return obs
    if kind == "continuous":
        return np.rint(obs * 3)
    row: np.ndarray = obs["told/0" if kind in ("nested", "tree") else "where"]
    return row


class TellingVectorEnv(VectorEnv):
    """Slots with episodes of random lengths that are terminated, truncated, or both.

    Args:
        kind: Of `KINDS`.
        runner: The number of the env runner.
        num_envs: Number of slots.
        seed: Of all that is random.
        crash_share: How often a slot's environment crashes and is replaced, per step.
    """

    def __init__(
        self, kind: str, runner: int = 0, num_envs: int = 5, seed: int = 0, crash_share: float = 0.0
    ):
        self.num_envs, self.kind, self.runner = num_envs, kind, runner
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        obs_space, action_space, self._tell = KINDS[kind]
        self.spaces = DataSpaces(obs_space, action_space)
        self.single_observation_space, self.single_action_space = obs_space, action_space
        self.observation_space = batch_space(obs_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self.happened: dict[Key, Happened] = {}
        self._rng, self._crash_share = np.random.default_rng([seed, runner]), crash_share

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        count = self.num_envs
        self._episode, self._t = np.zeros(count, int), np.zeros(count, int)
        self._length = self._rng.integers(1, 12, count)
        self._done = np.zeros(count, bool)
        self._rows: list[list[Any]] = [[] for _ in range(count)]
        obs = self._obs()
        self._seen = self.spaces.obs_layout.rows(obs)
        return obs, {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        done, count = self._done, self.num_envs
        took = self.spaces.action_layout.rows(actions)
        crashed = (self._rng.random(count) < self._crash_share) & ~done
        begins = done | crashed
        self._t = np.where(begins, 0, self._t + 1)
        self._done = ~begins & (self._t >= self._length)
        rewards = np.where(begins, 0, self._rng.normal(size=count)).astype(np.float32)
        kinds = self._rng.integers(0, 3, count)  # terminated, truncated, both
        terminated, truncated = self._done & (kinds != 1), self._done & (kinds != 0)
        for slot in np.flatnonzero(crashed):
            self._note(int(slot), self._seen[slot], False, False)
        self._episode += begins
        self._length = np.where(begins, self._rng.integers(1, 12, count), self._length)
        obs = self._obs()
        seen = self.spaces.obs_layout.rows(obs)
        for slot in np.flatnonzero(~begins):
            self._rows[slot].append((self._seen[slot], took[slot], rewards[slot]))
            if self._done[slot]:
                self._note(int(slot), seen[slot], bool(terminated[slot]), bool(truncated[slot]))
        self._seen = seen
        return obs, rewards, terminated, truncated, {RESTARTS: crashed.astype(int)}

    def cut(self) -> None:
        """Note what has not ended."""
        for slot in range(self.num_envs):
            self._note(slot, self._seen[slot], False, False)

    def _note(self, slot: int, last: Any, terminated: bool, truncated: bool) -> None:
        rows, self._rows[slot] = self._rows[slot], []
        if not rows:
            return
        obs, actions, rewards = zip(*rows, strict=True)
        key = (self.runner, slot, int(self._episode[slot]))
        self.happened[key] = Happened(
            _stacked(self.spaces.obs_layout, [*obs, last]),
            _stacked(self.spaces.action_layout, actions),
            np.array(rewards, np.float32),
            terminated,
            truncated,
        )

    def _obs(self) -> Any:
        columns = [np.full(self.num_envs, self.runner), np.arange(self.num_envs)]
        where = np.stack([*columns, self._episode, self._t], 1)
        return self._tell(where.astype(np.float32))


def _stacked(layout: ObservationLayout, rows: Any) -> np.ndarray:
    made = layout.empty((len(rows),))
    for index, row in enumerate(rows):
        made[index] = row
    return made
