"""The kind `nsga2`, a non-dominated sorting genetic algorithm."""

from __future__ import annotations

from experiments.search.evolution import EvolutionKind
from experiments.spec.search_schema import Nsga2Search


class Nsga2(EvolutionKind[Nsga2Search]):
    """Non-dominated sorting genetic algorithm II (Deb et al., 2002): several objectives."""

    sampler_class = "NSGAIISampler"
