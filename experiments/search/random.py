"""The kind `random`: settings are drawn, those with `grid` crossed with each draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.search.kind import Options, SearchKind
from experiments.spec.construction import Construction, construction
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import RandomSearch

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


class VariantKind(SearchKind[Options]):
    """A search whose trials do not depend on what came out of others."""

    def construction(
        self,
        spec: SweepSpec,
        space: Any,
        points: Sequence[Any],
        history: Sequence[FrozenTrial] = (),
    ) -> Construction:
        from experiments.search.variant_search import VariantSearch

        return construction(
            VariantSearch,
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
