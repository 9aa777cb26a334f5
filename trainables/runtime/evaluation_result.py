"""What the episodes of an evaluation gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trainables.runtime.custom_metrics import Logged, extend, reduced


@dataclass(frozen=True)
class EvaluationResult:
    """What the episodes gave.

    Attributes:
        returns: Undiscounted sums of rewards, `[E]`.
        lengths: Environment steps, `[E]`.
        logged: By callbacks.
        weights: What each counts in the means, `[E]`; None: the same.
    """

    returns: np.ndarray
    lengths: np.ndarray
    logged: Logged = field(default_factory=dict)
    weights: np.ndarray | None = None

    @classmethod
    def joined(cls, results: Sequence[EvaluationResult]) -> EvaluationResult:
        """The episodes of several, all counting the same."""
        logged: Logged = {}
        for result in results:
            extend(logged, result.logged)
        return cls(
            np.concatenate([result.returns for result in results]),
            np.concatenate([result.lengths for result in results]),
            logged,
        )

    @property
    def return_mean(self) -> float:
        """Mean return."""
        return float(np.average(self.returns, weights=self.weights))

    @property
    def return_std(self) -> float:
        """Standard deviation of the returns."""
        return float(self.returns.std(ddof=1)) if len(self.returns) > 1 else 0.0

    def metrics(self) -> dict[str, float]:
        """Flat metrics, as training results name them."""
        return {
            "episode_return_mean": self.return_mean,
            "episode_return_min": float(self.returns.min()),
            "episode_return_max": float(self.returns.max()),
            "episode_len_mean": float(np.average(self.lengths, weights=self.weights)),
            "num_episodes": len(self.returns),
            "num_env_steps": int(self.lengths.sum()),
            **reduced(self.logged),
        }
