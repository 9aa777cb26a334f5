"""What the kinds share that breed each generation of trials from the last one."""

from __future__ import annotations

from typing import Any, TypeVar

from experiments.search.optuna_kind import LearningKind
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import Nsga2Search, Nsga3Search
from search_spaces.documents import Document
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace

Options = TypeVar("Options", Nsga2Search, Nsga3Search)

_GENERATION = 50  # Optuna's, for a section outside a spec, which says for how many trials it is


class EvolutionKind(LearningKind[Options]):
    """An evolution, whose first generation is random, or an earlier sweep's trials."""

    drawn_apart = "conditional settings"

    def models(self, parameter: Parameter) -> bool:
        return not parameter.conditions

    def complete(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        if self.options.population_size is None:
            self.options.population_size = min(50, max(4, spec.num_samples // 5))

    def notes(self, spec: SweepSpec, space: SearchSpace) -> list[str]:
        size = self.options.population_size
        if self.options.warm_start or size is None or size < spec.num_samples:
            return super().notes(spec, space)
        return [
            *super().notes(spec, space),
            f"{self.options.algorithm} draws its first generation at random, and num_samples = "
            f"{spec.num_samples} makes no second one of population_size = {size}; "
            "more samples, a smaller population_size or search: tpe learn from results",
        ]

    def breeding(self, seed: int | None) -> dict[str, Any]:
        """Return the arguments of both kinds' samplers."""
        return {
            "seed": seed,
            "population_size": self.options.population_size or _GENERATION,
            "mutation_prob": self.options.mutation_prob,
            "crossover_prob": self.options.crossover_prob,
            "swapping_prob": self.options.swapping_prob,
        }
