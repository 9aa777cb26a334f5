"""`RolloutRecorder`: what an env runner samples is recorded, beside training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.core.policy.behaviour import acting_logp
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.fragments import Chunk, EpisodeSplitter, joined
from trainables.runtime.offline.write_thread import WriteThread
from trainables.runtime.sampling.recording import RowListener

# What is gathered before it is handed over: fewer, larger pieces of work cost less.
_ROWS_AT_ONCE = 4096
_BYTES_AT_ONCE = 8 * 2**20


class RolloutRecorder(RowListener):
    """Records what a module's policy does in its slots of an env runner.

    Who samples only copies columns; a thread makes episodes of them and writes.

    Args:
        policy: The policy that acts.
        explores: Whether it draws its actions, or takes the most likely ones.
        module_id: Its module.
        thread: Writes.
        name: What the ids of episodes begin with.
    """

    def __init__(
        self, policy: Policy, explores: bool, module_id: str, thread: WriteThread, name: str
    ):
        self._policy, self._explores = policy, explores
        self.spaces = DataSpaces(policy.observation_space, policy.action_space)
        self._stored, self._layout = policy.observations.layout, self.spaces.obs_layout
        self._actions, self._thread = self.spaces.action_layout, thread
        self._splitter = EpisodeSplitter(name, module_id)
        self._waiting: list[Chunk] = []
        self._num_rows = self._nbytes = 0

    def begin(self, num_steps: int, num_slots: int) -> None:
        self._env_actions = self._actions.empty((num_steps, num_slots))
        self._first_steps: np.ndarray | None = None

    def act(self, row: int, env_actions: Any, lengths: np.ndarray) -> None:
        if self._first_steps is None:
            self._first_steps = lengths.copy()
        self._actions.write(self._env_actions[row], env_actions)

    def act_apart(
        self, rows: np.ndarray, slots: np.ndarray, env_actions: Any, lengths: np.ndarray
    ) -> None:
        if self._first_steps is None:  # all act first
            self._first_steps = lengths.copy()
        self._env_actions[rows, slots] = self._actions.rows(env_actions)[slots]

    def add(self, rollout: Rollout, inputs: Tensor | None) -> None:
        """Record the rollout of the fragment.

        Raises:
            DataError: if something before could not be written.
        """
        assert self._first_steps is not None
        chunk = Chunk(
            rollout.obs.copy(),
            self._env_actions,
            rollout.rewards.copy(),
            rollout.terminated.copy(),
            rollout.truncated.copy(),
            rollout.valid.copy(),
            self._logp(rollout, inputs),
            self._first_steps,
            bool(rollout.follows.all()),
        )
        self._waiting.append(chunk)
        self._num_rows += chunk.num_rows
        self._nbytes += chunk.nbytes
        if self._num_rows >= _ROWS_AT_ONCE or self._nbytes >= _BYTES_AT_ONCE:
            self.hand_over()

    def _logp(self, rollout: Rollout, inputs: Tensor | None) -> np.ndarray | None:
        """Return the log-probabilities of what environments were given, `[T, N]`, if known."""
        if inputs is None:
            return None
        actions = torch.from_numpy(rollout.actions)
        rows = inputs.flatten(0, 1), actions.flatten(0, 1)
        logp = acting_logp(self._policy, *rows, explore=self._explores)
        return None if logp is None else logp.view(actions.shape[:2]).numpy()

    def hand_over(self) -> None:
        """Have what waits written, as far as episodes have ended."""
        waiting, self._waiting = self._waiting, []
        self._num_rows = self._nbytes = 0
        if waiting:
            self._thread.put(partial(self._episodes, waiting))

    def cut(self) -> None:
        """Have everything written, also of episodes that have not ended."""
        self.hand_over()
        self._thread.put(self._splitter.cut)

    def _episodes(self, chunks: list[Chunk]) -> Iterator[Episode]:
        for chunk in joined(chunks):
            obs = _without_extras(chunk.obs, self._stored, self._layout)
            yield from self._splitter.add(chunk._replace(obs=obs))


def _without_extras(
    rows: np.ndarray, stored: ObservationLayout, plain: ObservationLayout
) -> np.ndarray:
    """Return observations without what a policy has stored beside them, `[..., *shape]`."""
    if not stored.has_extras:
        return rows
    leaves = stored.leaves(rows)
    made = plain.empty(rows.shape)
    for path, leaf in plain.leaves(made).items():
        leaf[...] = leaves[path]
    return made
