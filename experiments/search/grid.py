"""The kind `grid`: every combination of the listed values, once."""

from __future__ import annotations

from experiments.search.kind import SearchKind
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import GridSearch
from search_spaces.documents import Document, SpecError
from search_spaces.space import SearchSpace


class GridKind(SearchKind[GridSearch]):
    """Grid search."""

    whole_grid = True

    def check(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        try:
            next(space.grid_points(whole=True))
        except SpecError as error:
            raise document.error(("search_space",), f"search_space: {error}") from None
        if spec.num_samples != 1:
            raise document.error(
                ("num_samples",), "num_samples: a grid search runs every combination once"
            )
