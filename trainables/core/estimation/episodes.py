"""`RecordedEpisodes`: what another policy did, as estimators look at it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np


class ReadableRows(Protocol):
    """Rows of recorded data, as `runtime.offline.data_rows` has them.

    Attributes:
        num_rows: Their number: steps, and behind each episode a row with its last observation.
    """

    num_rows: int

    def observations(self, rows: np.ndarray) -> np.ndarray:
        """Return observations of rows `[M]` as a policy stores them, `[M, …]`."""
        ...

    def read(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return a column of rows `[M]`: actions (as they are stored), is_first, valid, …."""
        ...


@dataclass(frozen=True)
class RecordedEpisodes:
    """E episodes of a behaviour policy, N steps, one behind another.

    Attributes:
        name: Of the data, for messages.
        rows: Where observations and actions lie.
        ids: The row of each step, `[N]`; the row behind it has what the step led to.
        lengths: Steps of each episode, `[E]`.
        rewards: Of the steps, `[N]`, float64.
        terminated: Whether a step led to a terminal state, `[N]`. The last step of an episode that
            did not was cut there: by a time limit, or where the recording ends.
        logp: Log-probability of each action under the behaviour policy, `[N]`, float64; NaN where
            nobody noted it and it was not estimated.
        gamma: Discount factor of what a policy is worth.
    """

    name: str
    rows: ReadableRows
    ids: np.ndarray
    lengths: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    logp: np.ndarray
    gamma: float

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def horizon(self) -> int:
        """Steps H of the longest episode."""
        return int(self.lengths.max())

    @cached_property
    def first_steps(self) -> np.ndarray:
        """The number of each episode's first step among all, `[E]`."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def last_steps(self) -> np.ndarray:
        """The number of each episode's last step among all, `[E]`."""
        return np.cumsum(self.lengths) - 1

    @cached_property
    def returns(self) -> np.ndarray:
        """The discounted sum of rewards of each episode, `[E]`."""
        return self.returns_to_go[self.first_steps]

    @cached_property
    def returns_to_go(self) -> np.ndarray:
        """The discounted sum of rewards from each step to its episode's end, `[N]`."""
        return backward_sums(self, self.rewards, np.full(len(self.rewards), self.gamma))

    def steps_of(self, episodes: np.ndarray) -> np.ndarray:
        """Return the numbers of the steps of episodes `[M]`, which may repeat."""
        lengths = self.lengths[episodes]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(self.first_steps[episodes], lengths) + within

    def part(self, episodes: np.ndarray) -> RecordedEpisodes:
        """Return some of the episodes, `[M]`, in this order."""
        steps = self.steps_of(episodes)
        return replace(
            self,
            ids=self.ids[steps],
            lengths=self.lengths[episodes],
            rewards=self.rewards[steps],
            terminated=self.terminated[steps],
            logp=self.logp[steps],
        )

    def padded(self, steps: np.ndarray) -> np.ndarray:
        """Return a column of steps `[N]` by episode, `[E, H]`, with zeros behind each end."""
        table = np.zeros((len(self), self.horizon))
        table[np.arange(self.horizon) < self.lengths[:, None]] = steps
        return table


def backward_sums(
    recorded: RecordedEpisodes,
    terms: np.ndarray,
    factors: np.ndarray,
    after_end: np.ndarray | None = None,
) -> np.ndarray:
    """Return `x[t] = terms[t] + factors[t] x[t+1]` within each episode, of all steps, `[N]`.

    Args:
        recorded: Which steps are an episode.
        terms: `[N]`.
        factors: `[N]`.
        after_end: What stands for x behind the last step of each episode, `[E]`; None: 0.
    """
    terms, factors = recorded.padded(terms), recorded.padded(factors)
    lengths = recorded.lengths
    following = np.zeros(len(recorded)) if after_end is None else after_end
    sums = np.empty_like(terms)
    for step in reversed(range(recorded.horizon)):
        # An episode that is over by then waits with what is behind its end.
        following = np.where(
            step < lengths, terms[:, step] + factors[:, step] * following, following
        )
        sums[:, step] = following
    return sums[np.arange(recorded.horizon) < lengths[:, None]]
