"""Prioritised experience replay (Schaul et al., 2016, arXiv 1511.05952), proportional variant."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainables.runtime.replay.sum_tree import SumTree


class Priorities:
    """Priorities of a buffer's rows: row i is drawn with P(i) = (p_i + eps)^alpha / sum.

    Args:
        num_rows: Rows of the buffer.
        alpha: Exponent; 0 draws uniformly.
        eps: Added to each priority.
    """

    def __init__(self, num_rows: int, alpha: float, eps: float):
        self._alpha, self._eps = alpha, eps
        self._tree = SumTree(num_rows)
        self._max = 1.0

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self._tree.nbytes

    @property
    def leaves(self) -> np.ndarray:
        """(p + eps)^alpha of every row, 0 of those that are not valid, `[num_rows]`, float64."""
        return self._tree.leaves

    def add(self, ids: np.ndarray, valid: np.ndarray) -> None:
        """Give new rows the largest priority so far, so that each is soon seen; invalid ones 0.

        Args:
            ids: `[M]`, int64.
            valid: `[M]`, bool.
        """
        self._tree.update(ids, valid * (self._max + self._eps) ** self._alpha)

    def update(self, ids: np.ndarray, priorities: np.ndarray, valid: np.ndarray) -> None:
        """Set the priorities of rows; those of rows that are not valid stay 0.

        Args:
            ids: `[M]`, int64.
            priorities: |TD error| or loss, `[M]`, finite and >= 0.
            valid: `[M]`, bool.
        """
        if not ids.size:
            return
        priorities = priorities.astype(np.float64)
        if not (priorities.min() >= 0 and priorities.max() < np.inf):  # NaN fails, too
            raise ValueError(
                f"priorities must be finite and >= 0, not {priorities.min()} to {priorities.max()}"
            )
        self._max = max(self._max, float((priorities * valid).max()))
        self._tree.update(ids, valid * (priorities + self._eps) ** self._alpha)

    def sample(
        self, batch_size: int, num_batches: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw batches, each stratified: one row from every 1/batch_size of the sum.

        Returns:
            Rows and their (p + eps)^alpha, both `[num_batches, batch_size]`.
        """
        strata = rng.random((num_batches, batch_size)) + np.arange(batch_size)
        ids = self._tree.sample((strata * (self._tree.total / batch_size)).reshape(-1))
        ids = ids.reshape(num_batches, batch_size)
        return ids, self._tree.leaves.take(ids)

    def get_state(self, num_rows: int) -> dict[str, Any]:
        """Return a copy of the first `num_rows` rows' priorities."""
        return {
            "max": self._max,
            "leaves": self._tree.leaves[:num_rows].copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s, made with the same alpha and eps."""
        self._max = float(state["max"])
        self._tree.set_leaves(state["leaves"])


def importance_weights(leaves: np.ndarray, beta: float) -> np.ndarray:
    """(num_rows * P(i))^-beta, divided by its maximum in each batch.

    That is (leaf / smallest leaf of the batch)^-beta: the number of rows and the sum cancel.

    Args:
        leaves: (p + eps)^alpha of the rows drawn, `[num_batches, batch_size]`, > 0.
        beta: 0 corrects nothing, 1 the whole bias.

    Returns:
        Weights in (0, 1], `[num_batches, batch_size]`, float32.
    """
    return ((leaves / leaves.min(axis=1, keepdims=True)) ** -beta).astype(np.float32)
