"""From the `search` section of a spec to Optuna's sampler."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    NSGAIIISampler,
    NSGAIISampler,
    QMCSampler,
    TPESampler,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.search.optuna_search import distribution
from experiments.spec.search_schema import (
    CmaesSearch,
    GpSearch,
    Nsga2Search,
    Nsga3Search,
    OptunaSection,
    SobolSearch,
    TpeSearch,
)
from search_spaces.domains import Choice
from search_spaces.space import SearchSpace

_GENERATION = 50  # Optuna's, for a section outside a spec, which says for how many trials it is


def build_sampler(
    search: OptunaSection,
    space: SearchSpace,
    seed: int | None = None,
    *,
    history: Sequence[FrozenTrial] = (),
) -> BaseSampler:
    """The sampler that a `search` section describes.

    Args:
        search: The section.
        space: What is searched.
        seed: Of the sampler; the same one suggests the same trials if it is told the same results.
        history: Trials of earlier sweeps. They are in the study too; CMA-ES takes its first
            distribution from them.
    """
    with warnings.catch_warnings():
        # Which of a sampler's options Optuna calls experimental is no news to the user.
        warnings.simplefilter("ignore", ExperimentalWarning)
        match search:
            case TpeSearch():
                return TPESampler(
                    seed=seed,
                    n_startup_trials=search.n_startup_trials,
                    n_ei_candidates=search.n_ei_candidates,
                    multivariate=search.multivariate,
                    group=bool(search.group),
                    constant_liar=search.constant_liar,
                )
            case CmaesSearch():
                return CmaEsSampler(
                    seed=seed,
                    n_startup_trials=search.n_startup_trials,
                    popsize=search.population_size,
                    warn_independent_sampling=False,  # `search_checks.notes` says so once
                    source_trials=_modelled_by_cmaes(space, history) or None,
                )
            case GpSearch():
                return _SingleThreadedGp(
                    seed=seed,
                    n_startup_trials=search.n_startup_trials,
                    deterministic_objective=search.deterministic_objective,
                    warn_independent_sampling=False,
                )
            case SobolSearch():
                return _WholeSpaceQmc(
                    space, seed=seed, qmc_type=search.sequence, scramble=search.scramble
                )
            case Nsga2Search() | Nsga3Search():
                kind = NSGAIISampler if isinstance(search, Nsga2Search) else NSGAIIISampler
                return kind(
                    seed=seed,
                    population_size=search.population_size or _GENERATION,
                    mutation_prob=search.mutation_prob,
                    crossover_prob=search.crossover_prob,
                    swapping_prob=search.swapping_prob,
                )
    raise NotImplementedError(type(search).__name__)


def history_attributes(search: object) -> dict[str, Any]:
    """Optuna's marks on trials of earlier sweeps without which a sampler does not see them.

    An evolution takes them for its first generation, instead of random trials.
    """
    if isinstance(search, Nsga2Search):
        return {NSGAIISampler._get_generation_key(): 0}
    if isinstance(search, Nsga3Search):
        return {NSGAIIISampler._get_generation_key(): 0}
    return {}


def _modelled_by_cmaes(space: SearchSpace, history: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials with those parameters only that CMA-ES models; it passes over others."""
    names = {
        parameter.name
        for parameter in space.parameters
        if not isinstance(parameter.domain, Choice)
        and not parameter.conditions
        and not distribution(parameter.domain).single()
    }
    return [
        create_trial(
            value=trial.value,
            params={n: v for n, v in trial.params.items() if n in names},
            distributions={n: d for n, d in trial.distributions.items() if n in names},
        )
        for trial in history
        if trial.state == TrialState.COMPLETE
    ]


class _SingleThreadedGp(GPSampler):
    """Optuna's, on one thread: its small matrices take twice as long on two, which trials need."""

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            found: dict[str, Any] = super().sample_relative(study, trial, search_space)
            return found
        finally:
            torch.set_num_threads(threads)


class _WholeSpaceQmc(QMCSampler):
    """Quasi-random points in the whole space, from the first trial on.

    Optuna's own draws the first trial at random, and takes the settings that this one happens to
    have for the dimensions of the sequence. Here every setting has its dimension, which goes unused
    in trials where the setting is inactive.
    """

    def __init__(
        self, space: SearchSpace, *, seed: int | None, qmc_type: str, scramble: bool
    ) -> None:
        super().__init__(
            qmc_type=qmc_type, scramble=scramble, seed=seed, warn_asynchronous_seeding=False
        )
        distributions = {p.name: distribution(p.domain) for p in space.parameters}
        self._whole_space = {n: d for n, d in distributions.items() if not d.single()}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return dict(self._whole_space)
