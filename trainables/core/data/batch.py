"""Rollouts and batches: experience as columns, never per-episode objects."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.features import Features
from trainables.core.data.layout import ObservationLayout

Batch = dict[str, Tensor]
HOST = torch.device("cpu")
"""Columns by name, each `[B, ...]`: what a loss sees."""

ADDED_ADVANTAGES = "added_advantages"
"""The extra column of a rollout with advantages that a part of a learner adds to those of rewards,
`[T, N]`."""

BY_ROW = ("actions", "rewards", "terminated", "truncated", "logp", "valid", "continues")
"""The columns that every rollout has, `[T, N, ...]`."""


@dataclass
class Rollout:
    """Experience of one module: arrays `[T, N, ...]`, a column per fragment of one slot's time.

    Environments reset on the step after an episode's end (gymnasium's NEXT_STEP), so `obs[t+1]` is
    always the true successor of `(obs[t], actions[t])`. The row after an end holds the final
    observation; its action is ignored by the environment and it is not `valid`.

    Attributes:
        obs: Raw observations as `ObservationLayout` stores them, `[T+1, N, ...]`.
        actions: Actions as the distribution sampled them, `[T, N, ...]`.
        rewards: Rewards of the actions, `[T, N]`, float32; 0 on rows that are not valid.
        terminated: Whether a terminal state was reached, `[T, N]`, bool.
        truncated: Whether the episode was cut, e.g. by a time limit, `[T, N]`, bool.
        logp: Log-probability of the action under the policy that took it, `[T, N]`; 0 for
            algorithms that do without.
        valid: Whether to train on this row, `[T, N]`, bool.
        continues: Whether the return recursion runs on from row t to row t+1, `[T, N]`, bool.
        weights_version: Version of the weights that acted, `[N]`, int64.
        follows: Whether this column goes on where the same one of the previous rollout ended,
            `[N]`, bool. False after a reset that no row shows: new episodes, a restored run.
        lengths: Rows of each column, `[N]`, int64, where those of some agents had others than they:
            what lies behind is padding, in which no time goes by. None: all T.
        states: Recurrent states before the rows 0, `state_stride`, 2 `state_stride`, … of the
            columns, `[S, N, ...]` by name, zeros where the row begins an episode; None of a
            feed-forward policy.
        state_stride: Rows from one stored state to the next.
        extra: Further columns by name, `[T, N, ...]`, that a part or a connector of a learner has
            added: the loss finds them in its batch as `extra/<name>`. No replay buffer keeps them.
            `ADDED_ADVANTAGES` is what estimators of advantages add to their own.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    logp: np.ndarray
    valid: np.ndarray
    continues: np.ndarray
    weights_version: np.ndarray
    follows: np.ndarray
    lengths: np.ndarray | None = None
    states: dict[str, np.ndarray] | None = None
    state_stride: int = 0
    extra: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def is_first(self) -> np.ndarray:
        """True in rows that begin an episode amid their column, `[T+1, N]`, bool.

        That is the row after one that only resets; never row 0, whose stored state says all.
        """
        return np.concatenate([np.zeros_like(self.valid[:1]), ~self.valid])

    @property
    def num_env_steps(self) -> int:
        """Environment steps in it: rows that only reset do not count."""
        return int(np.count_nonzero(self.valid))

    def without_steps(self) -> Rollout:
        """Return a copy without valid rows: the shape stays, all steps are dropped."""
        nothing = np.zeros_like(self.valid)
        return replace(
            self,
            rewards=np.zeros_like(self.rewards),
            terminated=nothing,
            truncated=nothing,
            valid=nothing,
            continues=nothing,
            follows=np.zeros_like(self.follows),
        )

    def slots(self, first: int, last: int) -> Rollout:
        """Return the columns of some slots, those from `first` to before `last`."""
        part = slice(first, last)
        columns: dict[str, Any] = {name: getattr(self, name)[:, part] for name in ("obs", *BY_ROW)}
        columns["extra"] = {name: column[:, part] for name, column in self.extra.items()}
        if self.states is not None:
            columns["states"] = {name: state[:, part] for name, state in self.states.items()}
        return replace(
            self,
            **columns,
            weights_version=self.weights_version[part],
            follows=self.follows[part],
            lengths=None if self.lengths is None else self.lengths[part],
        )

    def to_state(self, layout: ObservationLayout) -> dict[str, Any]:
        """Return a copy by column as checkpoints keep it; `from_state` undoes it."""
        left_out = ("obs",) if self.extra else ("obs", "extra")
        columns = {f.name: getattr(self, f.name) for f in fields(Rollout) if f.name not in left_out}
        return deepcopy(columns) | {"obs": layout.to_state(self.obs)}

    @staticmethod
    def from_state(state: dict[str, Any], layout: ObservationLayout) -> Rollout:
        """Return the rollout that `to_state` made columns of."""
        return Rollout(**(state | {"obs": layout.from_state(state["obs"])}))

    @staticmethod
    def concatenate(rollouts: Sequence[Rollout]) -> Rollout:
        """Put rollouts side by side. Shorter ones are padded with rows that are not valid.

        Raises:
            ValueError: if some have an extra column that others do not have.
        """
        if len(rollouts) == 1:
            return rollouts[0]
        extra = rollouts[0].extra
        if any(rollout.extra.keys() != extra.keys() for rollout in rollouts):
            found = [sorted(rollout.extra) for rollout in rollouts]
            raise ValueError(f"rollouts with other extra columns cannot be put together: {found}")
        length = max(len(rollout.rewards) for rollout in rollouts)
        columns: dict[str, Any] = {
            "states": _concatenated_states([rollout.states for rollout in rollouts]),
            "state_stride": rollouts[0].state_stride,
            "extra": {
                name: np.concatenate([_pad(r.extra[name], length, True) for r in rollouts], axis=1)
                for name in extra
            },
        }
        if any(rollout.lengths is not None for rollout in rollouts):
            columns["lengths"] = np.concatenate([_lengths(rollout) for rollout in rollouts])
        for name in ("weights_version", "follows"):
            columns[name] = np.concatenate([getattr(rollout, name) for rollout in rollouts])
        for name in ("obs", *BY_ROW):
            rows = length + 1 if name == "obs" else length
            padded = [_pad(getattr(r, name), rows, name == "rewards") for r in rollouts]
            columns[name] = np.concatenate(padded, axis=1)
        return Rollout(**columns)


def _lengths(rollout: Rollout) -> np.ndarray:
    if rollout.lengths is not None:
        return rollout.lengths
    return np.full(rollout.valid.shape[1], len(rollout.valid), np.int64)


def _concatenated_states(
    states: Sequence[dict[str, np.ndarray] | None],
) -> dict[str, np.ndarray] | None:
    present = [state for state in states if state is not None]
    if not present:
        return None
    count = max(len(part) for state in present for part in state.values())
    return {
        name: np.concatenate([_pad(state[name], count) for state in present], axis=1)
        for name in present[0]
    }


def _pad(column: np.ndarray, rows: int, is_zero: bool = False) -> np.ndarray:
    """Repeat the last row (a real observation, so that no network sees nonsense) up to `rows`.

    Flags are false in what is put behind, and numbers 0 if so asked.
    """
    missing = rows - len(column)
    if missing == 0:
        return column
    if is_zero or column.dtype == bool:
        padding = np.zeros((missing, *column.shape[1:]), column.dtype)
    else:
        padding = np.repeat(column[-1:], missing, axis=0)
    return np.concatenate([column, padding])


def as_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """Return an array as a tensor; on the CPU they share memory that can be written to."""
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array).to(device)


def extra_columns(rollout: Rollout) -> Batch:
    """Return the further columns of a rollout as its losses find them, `[T, N, ...]`."""
    extra = {name: as_tensor(column, HOST) for name, column in rollout.extra.items()}
    return tree_columns("extra", extra)


def tree_columns(name: str, tree: Features) -> Batch:
    """Return a tree of tensors as columns: `name`, or `name/…` for the entries of a dict."""
    if isinstance(tree, Tensor):
        return {name: tree}
    return {f"{name}/{key}": part for key, part in tree.items()}


def tree_of(batch: Batch, name: str) -> Features:
    """Return the tree of tensors that `tree_columns` made columns of."""
    if name in batch:
        return batch[name]
    prefix = f"{name}/"
    return {k.removeprefix(prefix): v for k, v in batch.items() if k.startswith(prefix)}
