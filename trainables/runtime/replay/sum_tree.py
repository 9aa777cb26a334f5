"""A sum tree: draw leaves in proportion to their values, many at once."""

from __future__ import annotations

from itertools import pairwise

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
        total: Their sum.
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
            positions: `[M]`, float64, in [0, total).

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
    """Positions that rounding has put on or past their end, just before it."""
    return np.minimum(positions, np.nextafter(ends, 0))
