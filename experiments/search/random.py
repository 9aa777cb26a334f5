"""The kind `random`: settings are drawn, those with `grid` crossed with each draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.search.kind import Options, SearchKind
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import RandomSearch
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from experiments.search.variant_search import VariantSearch


class VariantKind(SearchKind[Options]):
    """A search whose trials do not depend on what came out of others."""

    def build(
        self,
        spec: SweepSpec,
        space: SearchSpace,
        points: Sequence[dict[str, Any]],
        history: Sequence[FrozenTrial] = (),
    ) -> VariantSearch:
        from experiments.search.variant_search import VariantSearch

        return VariantSearch(
            space,
            metric=spec.objective.metric,
            mode=spec.objective.mode,
            num_samples=spec.num_samples,
            seed=spec.seed,
            whole_grid=self.whole_grid,
            points=list(points),
        )


class RandomKind(VariantKind[RandomSearch]):
    """Random search."""
