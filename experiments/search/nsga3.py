"""The kind `nsga3`, a non-dominated sorting genetic algorithm."""

from __future__ import annotations

from experiments.search.evolution import EvolutionKind
from experiments.spec.search_schema import Nsga3Search


class Nsga3(EvolutionKind[Nsga3Search]):
    """NSGA-III (Deb & Jain, 2014): more than three objectives."""

    sampler_class = "NSGAIIISampler"
