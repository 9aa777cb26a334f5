"""What the kinds share that breed each generation of trials from the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from experiments.search.optuna_kind import LearningKind
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import Nsga2Search, Nsga3Search
from search_spaces.documents import Document
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

Options = TypeVar("Options", Nsga2Search, Nsga3Search)

_GENERATION = 50  # Optuna's, for a section outside a spec, which says for how many trials it is


class EvolutionKind(LearningKind[Options]):
    """An evolution, whose first generation is random, or an earlier sweep's trials."""

    drawn_apart = "conditional settings"
    sampler_class: ClassVar[str]
    """The name of Optuna's sampler."""

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

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        sampler: BaseSampler = self._sampler_class()(
            seed=seed,
            population_size=self.options.population_size or _GENERATION,
            mutation_prob=self.options.mutation_prob,
            crossover_prob=self.options.crossover_prob,
            swapping_prob=self.options.swapping_prob,
        )
        return sampler

    def history_attributes(self) -> dict[str, Any]:
        from experiments.internals.optuna import first_generation

        return first_generation(self._sampler_class())

    def _sampler_class(self) -> Any:
        from optuna import samplers

        return getattr(samplers, self.sampler_class)
