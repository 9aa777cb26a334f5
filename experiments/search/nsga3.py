"""The kind `nsga3`, a non-dominated sorting genetic algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.search.evolution import EvolutionKind
from experiments.spec.search_schema import Nsga3Search
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


class Nsga3(EvolutionKind[Nsga3Search]):
    """NSGA-III (Deb & Jain, 2014): more than three objectives."""

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        from optuna.samplers import NSGAIIISampler

        return NSGAIIISampler(**self.breeding(seed))

    def history_attributes(self) -> dict[str, Any]:
        from optuna.samplers import NSGAIIISampler

        from experiments.internals.optuna import first_generation

        return first_generation(NSGAIIISampler)
