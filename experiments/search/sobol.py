"""The kind `sobol`, quasi-random points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.search.optuna_kind import OptunaKind
from experiments.spec.search_schema import SobolSearch
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


class Sobol(OptunaKind[SobolSearch]):
    """Points that fill the space evenly (Bergstra & Bengio, 2012)."""

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        from experiments.search.samplers import WholeSpaceQmc

        return WholeSpaceQmc(
            space, seed=seed, qmc_type=self.options.sequence, scramble=self.options.scramble
        )
