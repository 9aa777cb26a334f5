"""Rollouts as whole fragments, for losses that look along time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import (
    HOST,
    Batch,
    Rollout,
    as_tensor,
    extra_columns,
    tree_columns,
    tree_of,
)
from trainables.core.data.features import FRAMES, Features, map_tensors
from trainables.core.learning.ranks import Ranks
from trainables.core.networks.memory import state_arrays
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule
from trainables.core.policy.policy import Policy

_ROWS = ("actions", "logp", "rewards", "terminated", "continues", "valid", "is_first")


@torch.no_grad()
def fragment_batch(rollout: Rollout, policy: Policy) -> Batch:
    """Return the fragments of a rollout as items of a batch, each with all of its time.

    Args:
        rollout: `[T, N]`.
        policy: The policy that learns from it.

    Returns:
        Columns `[N, T, ...]` in host memory; `is_first` and the features have a row more, of the
        last successors. Of a policy with a memory also its states before the first rows,
        `[N, ...]`.
    """
    rows = {name: as_tensor(getattr(rollout, name), HOST) for name in _ROWS}
    rows |= extra_columns(rollout)
    features = policy.features(policy.observations.seen(rollout))
    rows |= tree_columns("features", map_tensors(lambda part: part.to(HOST), features))
    columns = {name: column.transpose(0, 1) for name, column in rows.items()}
    states = {
        name: as_tensor(state[0], HOST)
        for name, state in (rollout.states or {}).items()
        if name != FRAMES
    }
    return columns | tree_columns("state", states)


def unrolled_fragments(module: PolicyValueModule, batch: Batch) -> tuple[ModuleOutput, Batch]:
    """Return what a module says of fragments, from their first state on.

    Args:
        module: With a memory or without.
        batch: Columns `[N, T, ...]` of `fragment_batch`.

    Returns:
        Outputs `[T+1, N, ...]`, also of the last successors, and the other columns `[T, N, ...]`.
    """
    # Also the rows at episodes' ends: a truncated step bootstraps from the one behind it.
    is_first = batch["is_first"].transpose(0, 1)
    output, _ = module.unroll(time_major_features(batch), states_of(batch), is_first)
    return output, time_major_rows(batch)


class SelectedRows:
    """The valid rows of fragments by themselves, `[M, ...]`.

    Args:
        valid: `[T, N]`.

    Attributes:
        count: How many there are.
        divisor: The same, but at least 1: a learner's part of a batch may have none.
    """

    def __init__(self, valid: Tensor):
        self._shape, self._rows = valid.shape, valid.flatten().nonzero().squeeze(1)
        self.count = len(self._rows)
        self.divisor = max(1, self.count)

    def take(self, column: Tensor) -> Tensor:
        """Return the rows of a column `[T, N, ...]`."""
        return column.flatten(0, 1).index_select(0, self._rows)

    def spread(self, values: Tensor) -> Tensor:
        """Return values of the rows where they stand, `[T, N]`, and zeros elsewhere."""
        empty = values.new_zeros(self._shape.numel())
        return empty.index_copy(0, self._rows, values).view(self._shape)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of values of the rows."""
        return values.sum()


class MaskedRows:
    """As `SelectedRows`, but all rows of fragments, `[T * N, ...]`; those not valid are zeros.

    Args:
        valid: `[T, N]`.

    Attributes:
        count: How many are valid, a tensor.
        divisor: The same, but at least 1.
    """

    def __init__(self, valid: Tensor):
        self._shape, self._invalid = valid.shape, ~valid.flatten()
        self.count = valid.sum()
        self.divisor = self.count.clamp_min(1)

    def take(self, column: Tensor) -> Tensor:
        """Return the rows of a column `[T, N, ...]`."""
        rows = column.flatten(0, 1)
        return rows.masked_fill(self._invalid.view(-1, *[1] * (rows.dim() - 1)), 0)

    def spread(self, values: Tensor) -> Tensor:
        """Return values of the rows where they stand, `[T, N]`, and zeros elsewhere."""
        return values.masked_fill(self._invalid, 0).view(self._shape)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of values of the valid rows."""
        return values.masked_fill(self._invalid, 0).sum()


def states_of(batch: Batch) -> dict[str, Tensor]:
    """Return the states before fragments' first rows, `[N, ...]` by name; {} without a memory."""
    states = tree_of(batch, "state")
    assert isinstance(states, dict)
    return states


def time_major_features(batch: Batch) -> Features:
    """Return the features of fragments, `[T+1, N, ...]`."""
    return map_tensors(lambda part: part.transpose(0, 1), tree_of(batch, "features"))


def time_major_rows(batch: Batch) -> Batch:
    """Return the columns of fragments besides features and states, `[T, N, ...]`."""
    own = {n: c for n, c in batch.items() if n.partition("/")[0] not in ("features", "state")}
    return {name: column.transpose(0, 1) for name, column in own.items()}


def no_fragments(policy: Policy) -> Rollout:
    """Return a rollout of a policy without any column, `[1, 0]`.

    It stands for the share of a learner to which no fragment of a module has come.
    """
    distribution, none = policy.distribution, np.zeros((1, 0), np.bool_)
    action_type = torch.zeros(0, dtype=distribution.action_dtype).numpy().dtype
    states = {name: part[None] for name, part in state_arrays(policy.initial_state(0)).items()}
    return Rollout(
        obs=policy.observations.layout.zeros((2, 0)),
        actions=np.zeros((1, 0, *distribution.action_shape), action_type),
        rewards=np.zeros((1, 0), np.float32),
        terminated=none,
        truncated=none,
        logp=np.zeros((1, 0), np.float32),
        valid=none,
        continues=none,
        weights_version=np.zeros(0, np.int64),
        follows=none[0],
        states=states or None,
        state_stride=1 if states else 0,
    )


def all_steps(rollout: Rollout, ranks: Ranks) -> int:
    """Return the environment steps of all learners' rollouts."""
    return int(ranks.sum(torch.tensor(rollout.num_env_steps)))


def fragments_per_step(config: AlgorithmConfig, rollout: Rollout, ranks: Ranks) -> int | None:
    """Return how many fragments make a gradient step, the same number for every learner.

    Args:
        config: minibatch_size, and how long fragments are.
        rollout: What is learned from, `[T, N]` with a fragment in each column.
        ranks: Who has the other fragments.
    """
    if config.minibatch_size is None:
        return None
    length = config.get_rollout_fragment_length()
    # Then it is the least, or the most.
    if config.batch_mode == "complete_episodes" or config.count_steps_by == "agent_steps":
        counts = torch.tensor([rollout.num_env_steps, rollout.valid.shape[1]])
        num_steps, num_fragments = ranks.sum(counts).tolist()
        length = max(1, num_steps // max(1, num_fragments))
    return max(1, config.minibatch_size // length)
