"""Functional ANOVA of a regression tree: what each setting, and each pair, explains of it.

Hutter, Hoos and Leyton-Brown (2014), "An efficient approach for assessing hyperparameter
importance", algorithm 2: a tree splits the space into boxes, one per leaf, so that its average
over all other settings is a sum over leaves. The numbers are those of
`optuna.importance.FanovaImportanceEvaluator`, which walks the tree once per value and takes half
a minute for 200 trials; here each setting is one matrix product, and pairs come at the same price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.statistics.estimates import Floats

Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Axis:
    """The values of a setting, and how much each counts in an average over it.

    Attributes:
        low: Least value of a number; all between it and `high` count alike.
        high: Greatest value.
        levels: The values of a choice instead.
        shares: How much each level counts; they sum to 1.
        absent: The place of a number, below `low`, in trials without the setting.
        absent_share: How much that counts.
    """

    low: float = 0.0
    high: float = 1.0
    levels: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    absent: float | None = None
    absent_share: float = 0.0

    def cells(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return points and weights, `[k]`: no threshold parts what one point stands for."""
        if self.levels:
            return np.array(self.levels), np.array(self.shares)
        inside = np.unique(thresholds[(thresholds > self.low) & (thresholds < self.high)])
        edges = np.concatenate([[self.low], inside, [self.high]])
        points = (edges[1:] + edges[:-1]) / 2
        span = self.high - self.low
        weights = np.diff(edges) / span if span else np.ones(1)
        if self.absent is None:
            return points, weights
        return (
            np.append(points, self.absent),
            np.append(weights * (1 - self.absent_share), self.absent_share),
        )


class TreeMarginals:
    """A tree's averages over all but one or two settings.

    Attributes:
        mean: Over the whole space.
        variance: Over the whole space.
    """

    def __init__(self, tree: Any, axes: tuple[Axis, ...]) -> None:
        """Lay the tree out.

        Args:
            tree: The tree of scikit-learn: a fitted regressor's `tree_`.
            axes: The settings, in the order of the tree's features.
        """
        leaves = tree.children_left < 0
        lower, upper = _boxes(tree)
        self._lower, self._upper = lower[leaves], upper[leaves]  # [leaves, settings]
        self._values = tree.value[leaves, 0, 0]
        cells = [
            axis.cells(tree.threshold[tree.feature == place]) for place, axis in enumerate(axes)
        ]
        self._weights = [weights for _, weights in cells]
        self._inside = [self._mask(place, points) for place, (points, _) in enumerate(cells)]
        # The share of each setting's axis that lies in each leaf.
        self._volumes = np.stack(
            [mask @ w for mask, w in zip(self._inside, self._weights, strict=True)], axis=1
        )
        volume = self._volumes.prod(axis=1)
        self.mean = float(volume @ self._values)
        self.variance = float(volume @ (self._values - self.mean) ** 2)
        self._mains: dict[int, float] = {}

    def main(self, setting: int) -> float:
        """Return the share of the variance that one setting explains by itself."""
        if setting not in self._mains:
            curve = self._rest(setting) @ self._inside[setting]
            spread = float(self._weights[setting] @ (curve - self.mean) ** 2)
            self._mains[setting] = spread / self.variance
        return self._mains[setting]

    def pair(self, a: int, b: int) -> float:
        """Return the share that two settings explain together, beyond what each does by itself."""
        surface = (self._inside[a].T * self._rest(a, b)) @ self._inside[b]
        spread = self._weights[a] @ (surface - self.mean) ** 2 @ self._weights[b]
        return max(0.0, float(spread) / self.variance - self.main(a) - self.main(b))

    def curve(self, setting: int, points: Floats) -> Floats:
        """Return the average over all other settings at some values of one, `[k]`."""
        return np.asarray(self._rest(setting) @ self._mask(setting, points))

    def surface(self, a: int, b: int, points_a: Floats, points_b: Floats) -> Floats:
        """Return the average over all other settings at some values of two, `[k of a, k of b]`."""
        mask = self._mask(a, points_a).T * self._rest(a, b)
        return np.asarray(mask @ self._mask(b, points_b))

    def _mask(self, setting: int, points: Floats) -> Bools:
        """Tell whether a point of a setting's axis lies in a leaf, `[leaves, k]`."""
        # Truths, not numbers: of a thousand trials those would take gigabytes.
        above = self._lower[:, setting, None] < points
        return np.asarray(above & (points <= self._upper[:, setting, None]))

    def _rest(self, *settings: int) -> Floats:
        """Return each leaf's value times its share of the space of the others, `[leaves]`."""
        volumes = np.delete(self._volumes, settings, axis=1)
        return np.asarray(self._values * volumes.prod(axis=1))


def _boxes(tree: Any) -> tuple[Floats, Floats]:
    """Return the bounds of each node's box, `[nodes, settings]`; a node holds (lower, upper]."""
    lower = np.full((tree.node_count, tree.n_features), -np.inf)
    upper = np.full_like(lower, np.inf)
    nodes = np.zeros(1, dtype=int)
    while True:  # a level of the tree at a time
        nodes = nodes[tree.children_left[nodes] >= 0]
        if not len(nodes):
            return lower, upper
        left, right = tree.children_left[nodes], tree.children_right[nodes]
        for children in (left, right):
            lower[children], upper[children] = lower[nodes], upper[nodes]
        upper[left, tree.feature[nodes]] = tree.threshold[nodes]
        lower[right, tree.feature[nodes]] = tree.threshold[nodes]
        nodes = np.concatenate([left, right])
