"""The kind `pbt`: `PopulationTraining` whose mutations are drawn around the donor's settings."""

from __future__ import annotations

from experiments.schedulers.kind import Parts
from experiments.schedulers.mutation import Mutation
from experiments.schedulers.population import PopulationTraining
from experiments.schedulers.population_kind import PopulationKind, mutated_parameters
from experiments.spec.scheduler_schema import PbtScheduler


class Pbt(PopulationKind[PbtScheduler]):
    """Population-based training (Jaderberg et al., 2017)."""

    @property
    def burn_in(self) -> int:
        return self.options.burn_in_period

    def build(self, parts: Parts) -> PopulationTraining:
        mutation = Mutation(
            mutated_parameters(parts.space, self.options.mutations),
            factors=self.options.perturbation_factors,
            resample_probability=self.options.resample_probability,
            check=parts.check,
        )
        shared = self.shared(parts)
        return PopulationTraining(parts.space, mutation, burn_in=self.burn_in, **shared)
