"""The kind `gp`, a Gaussian process with expected improvement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.search.optuna_kind import LearningKind
from experiments.spec.search_schema import GpSearch
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


class Gp(LearningKind[GpSearch]):
    """Gaussian process; with several objectives, of the hypervolume."""

    drawn_apart = "conditional settings"

    def models(self, parameter: Parameter) -> bool:
        return not parameter.conditions

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        from experiments.search.samplers import SingleThreadedGp

        return SingleThreadedGp(
            seed=seed,
            n_startup_trials=self.options.n_startup_trials,
            deterministic_objective=self.options.deterministic_objective,
            warn_independent_sampling=False,  # `notes` says so once
        )
