"""Optuna's samplers: the one that a `search` section describes, and two that are changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, QMCSampler
from optuna.trial import FrozenTrial

from experiments.search.kind import search_kind
from experiments.search.optuna_search import distribution
from experiments.spec.search_schema import OptunaSection
from search_spaces.space import SearchSpace


def build_sampler(
    search: OptunaSection,
    space: SearchSpace,
    seed: int | None = None,
    *,
    history: Sequence[FrozenTrial] = (),
) -> BaseSampler:
    """Return the sampler that a `search` section describes.

    Args:
        search: The section.
        space: What is searched.
        seed: The sampler's seed; the same one suggests the same trials if told the same results.
        history: Trials of earlier sweeps. They are in the study too; CMA-ES takes its first
            distribution from them.
    """
    with warnings.catch_warnings():
        # Which of a sampler's options Optuna calls experimental is no news to the user.
        warnings.simplefilter("ignore", ExperimentalWarning)
        kind: Any = search_kind(search)
        sampler: BaseSampler = kind.sampler(space, seed, history)
    return sampler


class SingleThreadedGp(GPSampler):
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


class WholeSpaceQmc(QMCSampler):
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
