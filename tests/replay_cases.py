"""Random rollouts that say where they come from, and an obvious replay buffer to compare with."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.stores import StateLayout

SPACE = gym.spaces.Box(-1, 1e6, (4,), np.float32)


def make_buffer(
    num_slots: int = 1,
    seed: int = 0,
    space: gym.Space = SPACE,
    num_frames: int = 1,
    states: StateLayout | None = None,
    **settings: Any,
) -> ReplayBuffer:
    config = ReplayBufferConfig(**ReplayBufferConfig.check(settings))
    layout = ObservationLayout(space)
    seeds = np.random.SeedSequence(seed)
    return ReplayBuffer(config, layout, (), torch.int64, num_slots, seeds, num_frames, states)


class Stream:
    """Rollouts of slots whose observations are (slot, episode, step, is_final).

    Episodes have random lengths, 1 among them, and end in either way; actions are numbered.
    """

    def __init__(self, num_slots: int, rng: np.random.Generator, max_length: int = 6):
        self.num_slots, self.rng, self.max_length = num_slots, rng, max_length
        self.episode, self.t = np.zeros(num_slots, int), np.zeros(num_slots, int)
        self.length = rng.integers(1, max_length + 1, num_slots)
        self.done = np.zeros(num_slots, bool)
        self.actions = 0
        self.started = False

    def rollout(self, lengths: int | list[int], seam: list[int] | None = None) -> Rollout:
        """The next `lengths` rows of each slot, shorter ones padded.

        Args:
            lengths: Of all slots, or of each.
            seam: Slots that begin anew, which no row shows.
        """
        follows = np.full(self.num_slots, self.started)
        self.started = True
        for slot in seam or []:
            self._begin(slot)
            follows[slot] = False
        lengths = [lengths] * self.num_slots if isinstance(lengths, int) else lengths
        columns = [self._column(slot, n, follows[slot]) for slot, n in enumerate(lengths)]
        rollout = Rollout.concatenate(columns)
        for column in vars(rollout).values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False  # as they come from an object store
        return rollout

    def _begin(self, slot: int) -> None:
        self.episode[slot] += 1
        self.t[slot], self.done[slot] = 0, False
        self.length[slot] = self.rng.integers(1, self.max_length + 1)

    def _obs(self, slot: int) -> list[int]:
        return [slot, self.episode[slot], self.t[slot], self.done[slot]]

    def _column(self, slot: int, length: int, follows: bool) -> Rollout:
        obs, rows = [self._obs(slot)], []
        for _ in range(length):
            self.actions += 1
            valid, terminated, truncated, reward = not self.done[slot], False, False, 0.0
            if self.done[slot]:
                self._begin(slot)
            else:
                self.t[slot] += 1
                self.done[slot] = self.t[slot] == self.length[slot]
                terminated = self.done[slot] and self.rng.random() < 0.5
                truncated = self.done[slot] and not terminated
                reward = self.rng.normal()
            obs.append(self._obs(slot))
            rows.append((self.actions, reward, terminated, truncated, valid))
        if not length:  # nothing happens: a row of padding
            obs, rows = obs * 2, [(0, 0.0, False, False, False)]
        actions, rewards, terminated, truncated, valid = (
            np.array(column)[:, None] for column in zip(*rows, strict=True)
        )
        return Rollout(
            obs=np.array(obs, np.float32)[:, None],
            actions=actions,
            rewards=rewards.astype(np.float32),
            terminated=terminated,
            truncated=truncated,
            logp=np.zeros(valid.shape, np.float32),
            valid=valid,
            continues=np.ones(valid.shape, bool),  # not to be trusted
            weights_version=np.zeros(1, np.int64),
            follows=np.array([follows]),
        )


class SlowBuffer:
    """The last positions in a list, and one window at a time."""

    def __init__(self, num_positions: int, num_slots: int):
        self.num_positions, self.num_slots = num_positions, num_slots
        self.positions: list[dict[str, Any]] = []  # the oldest first
        self.written = 0

    def add(self, rollout: Rollout) -> None:
        if self.positions and rollout.follows.all():
            self.positions.pop()
            self.written -= 1
        names = ("actions", "rewards", "terminated", "truncated", "valid")
        rows = [{n: getattr(rollout, n)[t] for n in names} for t in range(len(rollout.rewards))]
        rows.append(dict.fromkeys(names, np.zeros(self.num_slots, bool)))  # the sentinel
        for row, obs in zip(rows, rollout.obs, strict=True):
            place = self.written % self.num_positions * self.num_slots
            self.positions.append(row | {"obs": obs, "ids": place + np.arange(self.num_slots)})
            self.written += 1
        self.positions = self.positions[-self.num_positions :]

    def valid_rows(self) -> list[tuple[int, int]]:
        """(position, slot) of every row that can be drawn."""
        return [
            (p, n)
            for p, row in enumerate(self.positions)
            for n in range(self.num_slots)
            if row["valid"][n]
        ]

    def window(self, p: int, n: int, n_step: int, gamma: float) -> dict[str, Any]:
        """What a sample of this row has."""
        first, total, m = self.positions[p], 0.0, 0
        while True:
            row, following = self.positions[p], self.positions[p + 1]
            total += gamma**m * row["rewards"][n]
            m += 1
            done = row["terminated"][n] or row["truncated"][n]
            if m == n_step or done or not following["valid"][n]:
                break
            p += 1
        return {
            "ids": first["ids"][n],
            "obs": first["obs"][n],
            "actions": first["actions"][n],
            "rewards": total,
            "next_obs": following["obs"][n],
            "discounts": 0.0 if row["terminated"][n] else gamma**m,
            "n_steps": m,
        }


def check_windows(
    buffer: ReplayBuffer,
    slow: SlowBuffer,
    n_step: int | tuple[int, int] = 1,
    gamma: float = 0.9,
) -> None:
    """Every valid row is drawn, and every sample is what the slow buffer makes of its row."""
    rows = slow.valid_rows()
    assert buffer.num_steps == len(rows)
    batch = {
        k: v.numpy() for k, v in buffer.sample(20 * len(rows), gamma=gamma, n_step=n_step).items()
    }
    number = np.full(slow.num_positions * slow.num_slots, -1)  # of a row in `rows`, by id
    number[[slow.positions[p]["ids"][n] for p, n in rows]] = np.arange(len(rows))
    which = number[batch["ids"]]
    assert (np.unique(which) == np.arange(len(rows))).all()  # also an episode's last n-1 rows
    low, high = (n_step, n_step) if isinstance(n_step, int) else n_step
    matched = np.zeros(len(which), bool)
    for horizon in range(low, high + 1):
        windows = [slow.window(p, n, horizon, gamma) for p, n in rows]
        expected = {name: np.array([w[name] for w in windows])[which] for name in windows[0]}
        same = batch["n_steps"] == expected["n_steps"]
        for name, values in expected.items():
            np.testing.assert_allclose(batch[name][same], values[same], rtol=1e-5, atol=1e-5)
        matched |= same
    assert matched.all()


def fill(
    seed: int,
    num_slots: int,
    num_positions: int,
    *,
    num_rollouts: int = 12,
    seams: bool = True,
    padding: bool = True,
    **settings: Any,
) -> tuple[ReplayBuffer, SlowBuffer]:
    """A buffer and the slow one after the same random rollouts."""
    rng = np.random.default_rng([seed, num_slots, num_positions])
    stream = Stream(num_slots, rng)
    buffer = make_buffer(num_slots, seed, capacity=num_positions * num_slots, **settings)
    slow = SlowBuffer(num_positions, num_slots)
    for _ in range(num_rollouts):
        length = int(rng.integers(1, num_positions))
        lengths = [length] * num_slots
        if padding:
            lengths = [int(rng.integers(1, length + 1)) for _ in range(num_slots)]
        seam = [n for n in range(num_slots) if seams and rng.random() < 0.2]
        rollout = stream.rollout(lengths, seam)
        buffer.add(rollout)
        slow.add(rollout)
    return buffer, slow
