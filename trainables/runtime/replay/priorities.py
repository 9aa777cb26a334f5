"""Prioritised experience replay (Schaul et al., 2016, arXiv 1511.05952), proportional variant."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

# Children of a node. A wide tree is a flat one: 100,000 leaves are six levels instead of 17, and
# numpy's cost here is per level, not per element.
_FANOUT = 8


class SumTree:
    """Values >= 0 in the leaves; every node holds the sum of its children.

    Sums are recomputed from the children, never corrected by differences: nothing drifts, and the
    leaves alone determine every node to the bit.

    Attributes:
        leaves: The values, `[num_leaves]`, float64. Read them; change them by `update`.
        total: The sum of the values.
    """

    def __init__(self, num_leaves: int):
        self._levels: list[np.ndarray] = []  # from the leaves up, [nodes of the level above, 8]
        nodes = num_leaves
        while not self._levels or nodes > 1:
            nodes = -(-nodes // _FANOUT)
            self._levels.append(np.zeros((nodes, _FANOUT)))
        self._flat = [level.reshape(-1) for level in self._levels]
        self.leaves = self._flat[0][:num_leaves]
        self.total = 0.0

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return sum(level.nbytes for level in self._levels)

    def update(self, ids: np.ndarray, values: np.ndarray | float) -> None:
        """Set leaves, and every sum above them, level by level.

        Args:
            ids: Leaves, `[M]`, int64. Of a leaf that is given twice, the last value stays.
            values: Finite and >= 0, `[M]` or one for all.
        """
        self.leaves[ids] = values
        nodes = ids // _FANOUT
        for (below, _), (_, above) in pairwise(zip(self._levels, self._flat, strict=True)):
            above[nodes] = below.take(nodes, axis=0).cumsum(axis=1)[:, -1]
            nodes = nodes // _FANOUT
        self.total = float(self._levels[-1][0].cumsum()[-1])

    def set_leaves(self, values: np.ndarray) -> None:
        """Set the first `len(values)` leaves, the others to zero, and all sums."""
        self.leaves[: len(values)] = values
        self.leaves[len(values) :] = 0
        for below, above in pairwise(self._levels):
            above.reshape(-1)[: len(below)] = below.cumsum(axis=1)[:, -1]
        self.total = float(self._levels[-1][0].cumsum()[-1])

    def sample(self, positions: np.ndarray) -> np.ndarray:
        """Return the leaf in which each position lies when leaves are laid end to end.

        Args:
            positions: Positions `[M]`, float64, in [0, total).

        Returns:
            Leaves `[M]`, int64. Never one of value zero, whatever the rounding.
        """
        first = np.arange(len(positions)) * _FANOUT
        nodes = np.zeros(len(positions), np.int64)
        rest = _below(positions, self.total)
        for level, flat in zip(reversed(self._levels), reversed(self._flat), strict=True):
            # A node's value is this very sum of its children, so the last end is beyond `rest`.
            ends = level.take(nodes, axis=0).cumsum(axis=1)
            # The first child that ends beyond `rest`: its end is beyond its start, so it is > 0.
            child = (ends <= rest[:, None]).sum(axis=1)
            start = ends.reshape(-1).take(first + child - 1, mode="wrap") * (child > 0)
            nodes = nodes * _FANOUT + child
            rest = _below(rest - start, flat.take(nodes))
        return nodes


def _below(positions: np.ndarray, ends: np.ndarray | float) -> np.ndarray:
    """Put positions that rounding has put on or past their end just before it."""
    return np.minimum(positions, np.nextafter(ends, 0))


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
            ids: The rows, `[M]`, int64.
            valid: Which of them are valid, `[M]`, bool.
        """
        self._tree.update(ids, valid * (self._max + self._eps) ** self._alpha)

    def update(self, ids: np.ndarray, priorities: np.ndarray, valid: np.ndarray) -> None:
        """Set the priorities of rows; those of rows that are not valid stay 0.

        Args:
            ids: The rows, `[M]`, int64.
            priorities: |TD error| or loss, `[M]`, finite and >= 0.
            valid: Which of them are valid, `[M]`, bool.
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
    """Return (num_rows * P(i))^-beta, divided by its maximum in each batch.

    That is (leaf / smallest leaf of the batch)^-beta: the number of rows and the sum cancel.

    Args:
        leaves: (p + eps)^alpha of the rows drawn, `[num_batches, batch_size]`, > 0.
        beta: 0 corrects nothing, 1 the whole bias.

    Returns:
        Weights in (0, 1], `[num_batches, batch_size]`, float32.
    """
    return ((leaves / leaves.min(axis=1, keepdims=True)) ** -beta).astype(np.float32)
