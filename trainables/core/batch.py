"""Rollouts and batches: experience as columns, never per-episode objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

Batch = dict[str, Tensor]
"""Columns by name, each `[B, ...]`: what a loss sees."""


@dataclass
class Rollout:
    """Experience of one module: arrays `[T, N, ...]`, a column per fragment of one slot's time.

    Environments reset on the step after an episode's end (gymnasium's NEXT_STEP), so `obs[t+1]` is
    always the true successor of `(obs[t], actions[t])`. The row after an end holds the final
    observation; its action is ignored by the environment and it is not `valid`.

    Attributes:
        obs: Raw observations, `[T+1, N, ...]`.
        actions: Actions as the distribution sampled them, `[T, N, ...]`.
        rewards: `[T, N]`, float32.
        terminated: A terminal state was reached, `[T, N]`, bool.
        truncated: The episode was cut, e.g. by a time limit, `[T, N]`, bool.
        logp: Log-probability of the action under the policy that took it, `[T, N]`; 0 for
            algorithms that do without.
        valid: Train on this row, `[T, N]`, bool.
        continues: The return recursion runs on from row t to row t+1, `[T, N]`, bool.
        weights_version: Version of the weights that acted, `[N]`, int64.
        follows: This column goes on where the same column of the previous rollout ended, `[N]`,
            bool. False after a reset that no row shows: new episodes, a restored run.
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

    @property
    def num_env_steps(self) -> int:
        """Environment steps in it: rows that only reset do not count."""
        return int(self.valid.sum())

    @staticmethod
    def concatenate(rollouts: Sequence[Rollout]) -> Rollout:
        """Put rollouts side by side. Shorter ones are padded with rows that are not valid."""
        if len(rollouts) == 1:
            return rollouts[0]
        length = max(len(rollout.rewards) for rollout in rollouts)
        columns = {}
        for field in fields(Rollout):
            parts = [getattr(rollout, field.name) for rollout in rollouts]
            if field.name in ("weights_version", "follows"):
                columns[field.name] = np.concatenate(parts)
                continue
            rows = length + 1 if field.name == "obs" else length
            columns[field.name] = np.concatenate([_pad(part, rows) for part in parts], axis=1)
        return Rollout(**columns)


def _pad(column: np.ndarray, rows: int) -> np.ndarray:
    """Repeat the last row (a real observation, so that no network sees nonsense) up to `rows`."""
    missing = rows - len(column)
    if missing == 0:
        return column
    if column.dtype == bool:
        padding = np.zeros((missing, *column.shape[1:]), dtype=bool)
    else:
        padding = np.repeat(column[-1:], missing, axis=0)
    return np.concatenate([column, padding])


def as_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """An array as a tensor: shares memory on the CPU unless it is read-only (object store)."""
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array).to(device)


def minibatches(
    batch: Batch,
    num_epochs: int,
    minibatch_size: int | None,
    generator: torch.Generator | None,
) -> Iterator[Batch]:
    """Yield minibatches of all rows, `num_epochs` times, by one permutation an epoch.

    Rows are divided evenly: a batch of 2,040 in minibatches of 256 gives 8 of 255, never a
    remnant of a few rows whose advantage statistics would be noise.

    Args:
        batch: Columns `[B, ...]`.
        num_epochs: Passes over the rows.
        minibatch_size: Rows of a minibatch at most; None takes all.
        generator: CPU generator of the permutations; None keeps the order.
    """
    rows = len(next(iter(batch.values())))
    count = 1 if minibatch_size is None else -(-rows // minibatch_size)
    bounds = [rows * i // count for i in range(count + 1)]
    for _ in range(num_epochs):
        shuffled = batch
        if generator is not None and count > 1:
            # One gather a column and epoch; the minibatches are then views of it.
            order = torch.randperm(rows, generator=generator)
            shuffled = {k: v.index_select(0, order.to(v.device)) for k, v in batch.items()}
        for start, end in pairwise(bounds):
            yield {name: column[start:end] for name, column in shuffled.items()}
