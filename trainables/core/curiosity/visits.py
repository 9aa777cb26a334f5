"""How often each state of a small discrete space was learned from."""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn

from trainables.core.data.features import Features, vector_of
from trainables.core.learning.ranks import Ranks

MOST_STATES = 100_000


class StateVisits(nn.Module):
    """Counts of the states of a Discrete space.

    Args:
        num_states: How many there are.
    """

    counts: Tensor

    def __init__(self, num_states: int):
        super().__init__()
        self.register_buffer("counts", torch.zeros(num_states, dtype=torch.int64))

    def update(self, features: Features, ranks: Ranks) -> None:
        """Count the states of all ranks, one-hot rows `[M, num_states]`."""
        vector = vector_of(features)
        assert vector is not None
        counts = torch.bincount(vector.argmax(-1), minlength=len(self.counts))
        self.counts += ranks.sum(counts)

    @property
    def num_states(self) -> Tensor:
        """How many states were there at all."""
        return torch.count_nonzero(self.counts)


def visits_of(space: gym.Space) -> StateVisits | None:
    """Return counters of an observation space's states; None if it is not Discrete, or large."""
    if isinstance(space, gym.spaces.Discrete) and space.n <= MOST_STATES:
        return StateVisits(int(space.n))
    return None
