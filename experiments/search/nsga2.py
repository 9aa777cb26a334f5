"""The kind `nsga2`, a non-dominated sorting genetic algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.search.evolution import EvolutionKind
from experiments.spec.search_schema import Nsga2Search
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


class Nsga2(EvolutionKind[Nsga2Search]):
    """Non-dominated sorting genetic algorithm II (Deb et al., 2002): several objectives."""

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        from optuna.samplers import NSGAIISampler

        return NSGAIISampler(**self.breeding(seed))

    def history_attributes(self) -> dict[str, Any]:
        from optuna.samplers import NSGAIISampler

        from experiments.internals.optuna import first_generation

        return first_generation(NSGAIISampler)
