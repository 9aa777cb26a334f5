"""Q-learning on sequences (R2D2: Kapturowski et al., 2019, "Recurrent experience replay").

A sequence is `burn_in` rows that only bring the stored recurrent state up to date, `length` rows
that are trained on, and `n_step` more for the targets of the last of these.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from trainables.core.config.resolved import SequenceShape
from trainables.core.data.batch import Batch, tree_columns, tree_of
from trainables.core.data.features import Features, map_tensors
from trainables.core.networks.memory import State


class GivesLogits(Protocol):
    """A network of action values, of one agent or of a team."""

    def logits(self, features: Features) -> Tensor:
        """Return the logits of every action, `[..., A, num_atoms]`; see `QNetwork.logits`."""

    def unroll_logits(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        """Return `logits` over sequences, `[L, B, A, num_atoms]`, and the next state."""


class QLogits(NamedTuple):
    """What the losses need of both networks: the logits of every action, `[M, A, num_atoms]`.

    Of a team they are those of every agent's, `[M, G, A, 1]`.

    Attributes:
        online: Of the rows.
        next_online: Of the rows that their windows lead to; those choose the next action.
        next_target: Of the same rows by the target network.
    """

    online: Tensor
    next_online: Tensor
    next_target: Tensor


def windows(
    rewards: Tensor,
    terminated: Tensor,
    runs_on: Tensor,
    steps: Tensor,
    gamma: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """n-step windows that end early with an episode and where nothing follows.

    Args:
        rewards: `[T, B]`.
        terminated: Whether the episode ended in a terminal state, `[T, B]`.
        runs_on: Whether the next row is of the same episode and valid, `[T, B]`.
        steps: Steps asked for of each of the first rows, `[L, B]`, at most T - L + 1.
        gamma: Discount factor.

    Returns:
        Discounted sums of rewards, the discount of the value after the window (0 after a terminal
        state), and real steps, each `[L, B]`.
    """
    length = len(steps)
    sums, taken = torch.zeros_like(rewards[:length]), torch.zeros_like(steps)
    discounts = torch.ones_like(sums)
    inside = torch.ones_like(steps, dtype=torch.bool)
    for k in range(int(steps.max())):
        row = slice(k, k + length)
        sums = sums + torch.where(inside, discounts * rewards[row], 0.0)
        discounts = torch.where(inside, gamma * discounts, discounts)
        discounts = discounts.masked_fill(inside & terminated[row], 0.0)
        taken = taken + inside
        inside = inside & runs_on[row] & (k + 1 < steps)
    return sums, discounts, taken


def q_sequences(drawn: Batch, features: Features, shape: SequenceShape, gamma: float) -> Batch:
    """Return what `sequence_logits` and the losses take of drawn sequences.

    Args:
        drawn: Columns `[T, B, …]` with T = `shape.num_rows`: ids, actions, rewards, terminated,
            truncated, valid, is_first and n_steps (asked for); and the states `[B, …]` before the
            first rows.
        features: Of the observations, `[T+1, B, …]`.
        shape: Of the sequences.
        gamma: Discount factor.

    Returns:
        Columns of the M valid rows that are trained on, `[M, …]`: ids, actions, rewards (n-step
        sums), discounts, weights; `rows` and `next_rows`, where they and the ends of their windows
        lie among all rows after the burn-in; and the sequences: features and is_first
        `[T+1, B, …]`, the states `[B, …]`.
    """
    valid = drawn["valid"]
    done = drawn["terminated"] | drawn["truncated"]
    runs_on = torch.zeros_like(valid)
    runs_on[:-1] = valid[:-1] & valid[1:] & ~done[:-1]
    after = slice(shape.burn_in, None)
    trained = slice(shape.burn_in, shape.burn_in + shape.length)
    sums, discounts, taken = windows(
        drawn["rewards"][after],
        drawn["terminated"][after],
        runs_on[after],
        drawn["n_steps"][trained],
        gamma,
    )
    rows = valid[trained].flatten().nonzero().squeeze(1)
    columns = {
        "ids": drawn["ids"][trained],
        "actions": drawn["actions"][trained],
        "rewards": sums,
        "discounts": discounts,
        "weights": torch.ones_like(sums),
    }
    batch = {name: column.flatten(0, 1)[rows] for name, column in columns.items()}
    batch |= {"rows": rows, "next_rows": rows + taken.flatten()[rows] * valid.shape[1]}
    # Row 0 goes on from its stored state, which is zeros where an episode begins; the last
    # observation is only looked at as a successor.
    no_row = torch.zeros_like(valid[:1])
    batch["is_first"] = torch.cat([no_row, drawn["is_first"][1:], no_row])
    batch |= tree_columns("features", features)
    return batch | tree_columns("state", tree_of(drawn, "state"))


def sequence_logits(
    online: GivesLogits, target: GivesLogits, batch: Batch, burn_in: int
) -> QLogits:
    """Unroll both networks over sequences of `q_sequences`; the gradient stops at the burn-in."""
    features, is_first = tree_of(batch, "features"), batch["is_first"]
    state = tree_of(batch, "state")
    assert isinstance(state, dict)
    early = map_tensors(lambda part: part[:burn_in], features)
    late = map_tensors(lambda part: part[burn_in:], features)

    def unroll(network: GivesLogits) -> Tensor:
        before = state
        if burn_in:
            with torch.no_grad():
                before = network.unroll_logits(early, state, is_first[:burn_in])[1]
        return network.unroll_logits(late, before, is_first[burn_in:])[0].flatten(0, 1)

    logits = unroll(online)  # [(length + n_step) B, A, num_atoms]
    with torch.no_grad():
        targets = unroll(target)
    rows, next_rows = batch["rows"], batch["next_rows"]
    return QLogits(logits[rows], logits.detach()[next_rows], targets[next_rows])
