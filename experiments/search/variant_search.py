"""Grid and random search: what they try does not depend on what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.tune.search import Searcher

from experiments.search.searcher import SpaceSearcher
from search_spaces.space import SearchSpace


class VariantSearch(SpaceSearcher):
    """Every grid point, `num_samples` times, with the other domains drawn anew each time.

    Args:
        space: What is searched.
        metric: The objective, for Tune.
        mode: "max" or "min".
        num_samples: Draws per grid point.
        seed: The seed of the draws.
        whole_grid: Whether every value of every domain is taken, not drawn (a plain grid search).
        points: Searched values of the first draws; what a point lacks is drawn.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        metric: str,
        mode: str,
        num_samples: int = 1,
        seed: int | None = None,
        whole_grid: bool = False,
        points: Sequence[dict[str, Any]] = (),
    ) -> None:
        super().__init__(space, metric, mode)
        self._grid = list(space.grid_points(whole=whole_grid))
        self._total = num_samples * len(self._grid)
        self._whole_grid = whole_grid
        self._points = list(points)
        self._next = 0
        self._random = np.random.default_rng(seed)

    def extend(self, num_samples: int, stop: Mapping[str, float]) -> None:
        self._total = num_samples * len(self._grid)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Return the next trial's searched settings, or `Searcher.FINISHED`."""
        if self._next >= self._total:
            finished: Any = Searcher.FINISHED  # a string, whatever Tune's annotation says
            return finished
        draw, place = divmod(self._next, len(self._grid))
        searched = dict(self._grid[place])
        if not self._whole_grid:
            point = self._points[draw] if draw < len(self._points) else {}
            searched = self.space.sample(self._random, {**point, **searched})
        self._next += 1
        return self.space.config(searched)
