"""The kind `tpe`, the tree-structured Parzen estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.search.optuna_kind import LearningKind
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import TpeSearch
from search_spaces.documents import Document
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


class Tpe(LearningKind[TpeSearch]):
    """Tree-structured Parzen estimator (Bergstra et al., 2011)."""

    def complete(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        search = self.options
        if search.group and search.multivariate is False:
            raise document.error(
                ("search", "group"),
                "search: group = true needs multivariate: true, because it models settings jointly",
            )
        if search.multivariate is None:
            search.multivariate = bool(search.group) or len(spec.objectives) < 2
        if search.group is None:
            conditional = any(parameter.conditions for parameter in space.parameters)
            search.group = search.multivariate and conditional

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        from optuna.samplers import TPESampler

        return TPESampler(
            seed=seed,
            n_startup_trials=self.options.n_startup_trials,
            n_ei_candidates=self.options.n_ei_candidates,
            multivariate=self.options.multivariate,
            group=bool(self.options.group),
            constant_liar=self.options.constant_liar,
        )
