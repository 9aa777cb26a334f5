"""What the episodes of an evaluation gave."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trainables.runtime.callbacks.custom_metrics import Logged, extend, reduced


def _none() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class EvaluationResult:
    """What the episodes gave.

    Attributes:
        returns: Undiscounted sums of rewards, of episodes that ended, `[E]`.
        lengths: Environment steps of these episodes, `[E]`.
        logged: What callbacks have logged.
        weights: What each counts in the means, `[E]`; None: the same.
        cut_lengths: Environment steps of episodes that were cut off, as all were played that a
            number of timesteps asks for, `[C]`. What they would have returned is not known.
    """

    returns: np.ndarray
    lengths: np.ndarray
    logged: Logged = field(default_factory=dict)
    weights: np.ndarray | None = None
    cut_lengths: np.ndarray = field(default_factory=_none)

    @property
    def num_env_steps(self) -> int:
        """Of all episodes, ended or cut off."""
        return int(self.lengths.sum() + self.cut_lengths.sum())

    @property
    def steps_per_episode(self) -> float:
        """Of all episodes, ended or cut off; NaN without any."""
        num_episodes = len(self.lengths) + len(self.cut_lengths)
        return self.num_env_steps / num_episodes if num_episodes else math.nan

    def cut_after(self, num_steps: int) -> EvaluationResult:
        """Return what it would be if slots stepped together had stopped after so many steps of all.

        At most one step of each slot more. What callbacks logged later cannot be told apart, so
        that nothing of it is left.
        """
        if self.num_env_steps <= num_steps:
            return self
        slots = np.concatenate([self.lengths, self.cut_lengths])
        last = bisect.bisect_left(
            range(int(slots.max())), num_steps, key=lambda at: int(np.minimum(slots, at).sum())
        )
        ended = self.lengths <= last
        return EvaluationResult(
            self.returns[ended],
            self.lengths[ended],
            cut_lengths=np.minimum(np.concatenate([self.lengths[~ended], self.cut_lengths]), last),
        )

    @classmethod
    def joined(cls, results: Sequence[EvaluationResult]) -> EvaluationResult:
        """Return the episodes of several, all counting the same."""
        logged: Logged = {}
        for result in results:
            extend(logged, result.logged)
        return cls(
            np.concatenate([result.returns for result in results]),
            np.concatenate([result.lengths for result in results]),
            logged,
            cut_lengths=np.concatenate([result.cut_lengths for result in results]),
        )

    @property
    def return_mean(self) -> float:
        """Mean return; NaN if no episode has ended."""
        return self._mean(self.returns)

    def _mean(self, values: np.ndarray) -> float:
        return float(np.average(values, weights=self.weights)) if len(values) else math.nan

    @property
    def return_std(self) -> float:
        """Standard deviation of the returns."""
        return float(self.returns.std(ddof=1)) if len(self.returns) > 1 else 0.0

    def metrics(self) -> dict[str, float]:
        """Return flat metrics, as training results name them; NaN where no episode has ended."""
        return {
            "episode_return_mean": self.return_mean,
            "episode_return_min": float(min(self.returns, default=math.nan)),
            "episode_return_max": float(max(self.returns, default=math.nan)),
            "episode_len_mean": self._mean(self.lengths),
            "num_episodes": len(self.returns),
            "num_episodes_cut_off": len(self.cut_lengths),
            "num_env_steps": self.num_env_steps,
            **reduced(self.logged),
        }


NOTHING = EvaluationResult(np.empty(0), _none())
"""Of an evaluation of which nothing came in time."""
