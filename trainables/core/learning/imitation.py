"""What imitation learns from: rows, or sequences for networks with a memory, and their returns."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainables.core.data.batch import Batch, tree_columns, tree_of
from trainables.core.data.features import map_tensors
from trainables.core.learning.returns import discounted_returns
from trainables.core.networks.memory import State
from trainables.core.networks.modules import PolicyModule, PolicyValueModule, with_values


class Imitated(NamedTuple):
    """What a module says of M rows that somebody acted in, and what came of them.

    Attributes:
        dist_inputs: Of the action distribution, `[M, num_inputs]`.
        actions: What was done, `[M, …]`.
        values: State values, `[M]`; empty if nobody asked for them.
        returns: Discounted rewards to the end of what is known of the episode, and from there the
            present state value unless it terminated, without gradient, `[M]`; empty likewise.
    """

    dist_inputs: Tensor
    actions: Tensor
    values: Tensor
    returns: Tensor


def imitation_sequences(drawn: Batch, state: State) -> Batch:
    """Return what `imitated` takes of drawn sequences.

    Args:
        drawn: Columns `[L, B, …]`: actions, rewards, terminated, truncated, valid and is_first; and
            features, `[L+1, B, …]`.
        state: What the memory begins with, `[B, …]` by name: recorded data have no states.

    Returns:
        actions of the M valid rows, `[M, …]`, and `rows`, where they lie among all; the sequences:
        rewards, terminated and continues `[L, B]`, features and is_first `[L+1, B, …]`, the states
        `[B, …]`.
    """
    valid = drawn["valid"]
    continues = torch.zeros_like(valid)
    done = drawn["terminated"] | drawn["truncated"]
    continues[:-1] = valid[:-1] & valid[1:] & ~done[:-1]
    rows = valid.flatten().nonzero().squeeze(1)
    # The first row begins with what it is given; the last observation is a successor, no more.
    no_row = torch.zeros_like(valid[:1])
    batch = {
        "actions": drawn["actions"].flatten(0, 1)[rows],
        "rows": rows,
        "rewards": drawn["rewards"],
        "terminated": drawn["terminated"],
        "continues": continues,
        "is_first": torch.cat([no_row, drawn["is_first"][1:], no_row]),
    }
    batch |= tree_columns("features", tree_of(drawn, "features"))
    return batch | tree_columns("state", state)


def imitated(module: PolicyModule, batch: Batch, gamma: float, *, values: bool) -> Imitated:
    """Return what a module says of a batch, and the returns of its rows.

    Args:
        module: With a memory or without.
        batch: Rows `[M, …]`: features, actions, and for values rewards (discounted, to the end),
            discounts (of what follows) and next_features; of a recurrent module what
            `imitation_sequences` returns.
        gamma: Discount factor.
        values: Whether values and returns are asked for.
    """
    if module.is_recurrent:
        return _of_sequences(module, batch, gamma, values)
    features, actions = tree_of(batch, "features"), batch["actions"]
    if not values:
        inputs = module.dist_inputs(features)
        return Imitated(inputs, actions, inputs.new_empty(0), inputs.new_empty(0))
    critic = with_values(module)
    output = critic(features)
    with torch.no_grad():
        next_values = critic.value(tree_of(batch, "next_features"))
        returns = batch["rewards"] + batch["discounts"] * next_values
    return Imitated(output.dist_inputs, actions, output.values, returns)


def _of_sequences(module: PolicyModule, batch: Batch, gamma: float, values: bool) -> Imitated:
    features, is_first = tree_of(batch, "features"), batch["is_first"]
    state, rows = tree_of(batch, "state"), batch["rows"]
    assert isinstance(state, dict)
    if not values:
        features, is_first = map_tensors(lambda part: part[:-1], features), is_first[:-1]
        # The row before an episode's first one is no step of anybody.
        inputs, _ = module.unroll_inputs(features, state, is_first, ends_unseen=True)
        none = inputs.new_empty(0)
        return Imitated(inputs.flatten(0, 1)[rows], batch["actions"], none, none)
    critic: PolicyValueModule = with_values(module)
    output, _ = critic.unroll(features, state, is_first)
    returns = discounted_returns(
        batch["rewards"],
        output.values[1:].detach(),
        batch["terminated"],
        batch["continues"],
        gamma,
    )
    inputs, of_rows = output.dist_inputs.flatten(0, 1), output.values.flatten()
    return Imitated(inputs[rows], batch["actions"], of_rows[rows], returns.flatten()[rows])
