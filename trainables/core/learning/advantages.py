"""Advantages of fresh rollouts, for policy gradients that learn from what their policy sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trainables.core.config.advantages import AdvantageConfig
from trainables.core.data.batch import (
    ADDED_ADVANTAGES,
    HOST,
    Batch,
    Rollout,
    as_tensor,
    extra_columns,
    tree_columns,
)
from trainables.core.data.features import FRAMES, Features, joined_rows, map_tensors
from trainables.core.learning.minibatches import (
    normalized,
    row_ids,
    sequence_batch,
    sequences_kept,
    valid_rows,
)
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.learning.returns import (
    discounted_returns,
    explained_variance,
    gae,
    root_mean_square,
    standard_deviation,
)
from trainables.core.networks.modules import ModuleOutput, with_values
from trainables.core.policy.policy import Policy


@torch.no_grad()
def with_advantages(
    rollout: Rollout,
    policy: Policy,
    config: AdvantageConfig,
    ranks: Ranks = ALONE,
    *,
    dist_inputs: bool = False,
    rows_at_once: int | None = None,
) -> Batch:
    """Return the rows of a rollout that are trained on, with advantages and value targets.

    Args:
        rollout: `[T, N]`.
        policy: The policy that sampled it; its filter statistics are still the same.
        config: gamma, lambda and what estimator to use.
        ranks: Who has the rows of other slots.
        dist_inputs: Whether the parameters of the action distributions are needed.
        rows_at_once: Rows that are on the policy's device at the same time, see `rollout_outputs`.

    Returns:
        Columns `[B, …]` in host memory, B the number of valid rows: features, actions, logp,
        advantages, values, value_targets, and dist_inputs if asked for; `extra/<name>` of what
        the rollout has besides; with other ranks also ids, see `row_ids`. Of a recurrent policy
        sequences, see `sequence_batch`.
    """
    tensor = {
        name: as_tensor(getattr(rollout, name), HOST)
        for name in ("actions", "logp", "rewards", "terminated", "continues", "valid", "is_first")
    }
    features, output = rollout_outputs(
        policy, rollout, rows_at_once, dist_inputs=dist_inputs, values=config.use_critic
    )
    rewards, terminated, continues = (tensor[k] for k in ("rewards", "terminated", "continues"))
    if config.use_critic:
        values, next_values = output.values[:-1], output.values[1:]
        lambda_ = config.lambda_ if config.use_gae else 1.0
        advantages = gae(rewards, values, next_values, terminated, continues, config.gamma, lambda_)
    else:
        values = torch.zeros_like(rewards)
        # Without a critic there is nothing to bootstrap from where a fragment or episode is cut.
        advantages = discounted_returns(rewards, values, terminated, continues, config.gamma)
    features = map_tensors(lambda part: part[:-1], features)
    targets = advantages + values
    if ADDED_ADVANTAGES in rollout.extra:
        advantages = advantages + as_tensor(rollout.extra[ADDED_ADVANTAGES], HOST)
    columns = {
        "actions": tensor["actions"],
        "logp": tensor["logp"],
        "advantages": advantages,
        "values": values,
        "value_targets": targets,
    }
    columns |= extra_columns(rollout)
    if dist_inputs:
        columns["dist_inputs"] = output.dist_inputs[:-1]
    valid = tensor["valid"]
    if policy.is_recurrent:
        columns |= {"valid": valid, "is_first": tensor["is_first"][:-1]}
        batch = sequence_batch(columns, features, _states(rollout), rollout.state_stride)
        kept = sequences_kept(valid, rollout.state_stride)
    else:
        columns |= tree_columns("features", features)
        rows = valid.flatten().nonzero().squeeze(1)
        # Losses of rows do not depend on order, so invalid ones are left out rather than masked.
        batch = {name: part.flatten(0, 1).index_select(0, rows) for name, part in columns.items()}
        kept = valid
    if ranks.size > 1:
        batch["ids"] = row_ids(kept, ranks)
    return batch


class AdvantageScale(NamedTuple):
    """How the advantages of a train batch deviate, over the valid rows of all ranks.

    Attributes:
        rows: The advantages, `[M]`.
        std: Their standard deviation; 0 of fewer than two.
        least_std: The least deviation that they are divided by.
    """

    rows: Tensor
    std: float
    least_std: float

    def normalized(self, advantages: Tensor) -> Tensor:
        """Return advantages in the scale in which all rows have mean 0 and standard deviation 1."""
        return normalized(advantages, self.rows, self.least_std)


def advantage_scale(batch: Batch, config: AdvantageConfig, ranks: Ranks = ALONE) -> AdvantageScale:
    """Return the scale of a batch of `with_advantages`.

    Args:
        batch: Without the column `ids`.
        config: `advantage_std_floor`.
        ranks: Who has other rows.
    """
    rows, targets = all_rows(batch, ranks, "advantages", "value_targets")
    least_std = config.advantage_std_floor * root_mean_square(targets)
    return AdvantageScale(rows, standard_deviation(rows), least_std)


def all_rows(batch: Batch, ranks: Ranks, *names: str) -> list[Tensor]:
    """Return columns of the rows that are trained on, `[M, …]`, of all ranks."""
    rows = valid_rows(batch)
    return [torch.cat(ranks.gather(rows[name])) for name in names]


def explained_by_values(batch: Batch, ranks: Ranks = ALONE) -> float:
    """Return how well values fit their targets, over the valid rows of all ranks: 1 is perfect.

    Args:
        batch: Rows or sequences with the columns `values` and `value_targets`.
        ranks: Who has other rows.
    """
    values, targets = all_rows(batch, ranks, "values", "value_targets")
    return explained_variance(values, targets).item()


def _states(rollout: Rollout) -> dict[str, Tensor]:
    """Return the recurrent states before the sequences, `[S, N, …]` by name."""
    states = rollout.states or {}
    return {name: as_tensor(part, HOST) for name, part in states.items() if name != FRAMES}


@torch.no_grad()
def rollout_outputs(
    policy: Policy,
    rollout: Rollout,
    rows_at_once: int | None = None,
    *,
    dist_inputs: bool = True,
    values: bool = True,
) -> tuple[Features, ModuleOutput]:
    """Return features of all rows, and what the policy says of them, as when it sampled them.

    Args:
        policy: With a memory or without.
        rollout: `[T, N]`.
        rows_at_once: Rows that are on the policy's device at the same time at most, but at least
            one of each slot; None, and on the CPU: all.
        dist_inputs: Whether they are needed; a policy with a memory gives them anyway.
        values: Whether they are needed; likewise.

    Returns:
        Both `[T+1, N, ...]`, also of the last successors, in host memory.
    """
    obs = policy.observations.seen(rollout)
    is_first = torch.from_numpy(rollout.is_first)
    num_rows, num_slots = is_first.shape
    steps = num_rows
    if rows_at_once is not None and policy.device != HOST:
        steps = max(1, rows_at_once // num_slots)
    state = {
        name: as_tensor(part[0], policy.device)
        for name, part in (rollout.states or {}).items()
        if name != FRAMES
    }
    nothing = torch.empty(0)
    all_features, all_outputs = [], []
    for start in range(0, num_rows, steps):
        rows = slice(start, start + steps)
        features = policy.features(obs[rows])
        if policy.is_recurrent:
            unroll = with_values(policy.module).unroll
            output, state = unroll(features, state, is_first[rows].to(policy.device))
        else:
            output = ModuleOutput(
                policy.module.dist_inputs(features) if dist_inputs else nothing,
                with_values(policy.module).value(features) if values else nothing,
            )
        all_features.append(map_tensors(lambda part: part.to(HOST), features))
        all_outputs.append(ModuleOutput(*(part.to(HOST) for part in output)))
    outputs = ModuleOutput(*(_joined(parts) for parts in zip(*all_outputs, strict=True)))
    return joined_rows(all_features), outputs


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
