"""TPE beats random search on Branin's function, over 20 seeds of 60 trials each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ray.tune.search import Searcher
from scipy.stats import wilcoxon

from experiments.search.optuna_search import OptunaSearch
from experiments.search.samplers import build_sampler
from experiments.search.variant_search import VariantSearch
from experiments.spec.search_schema import TpeSearch
from search_spaces import SearchSpace

METRIC = "episode_return_mean"
SPACE = SearchSpace.parse({"x": {"uniform": [-5, 10]}, "y": {"uniform": [0, 15]}})
TRIALS, SEEDS = 60, 20
OPTIMUM = 0.397887


def branin(x: float, y: float) -> float:
    """Three equal minima (Dixon & Szegö, 1978)."""
    a = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return a**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def regret(searcher: Searcher) -> float:
    """How far the best of the trials is from the optimum; two run at a time, as in a sweep."""
    values, running = [], []
    for number in range(TRIALS):
        config: Any = searcher.suggest(str(number))
        running.append((str(number), branin(**config)))
        if len(running) == 2:
            trial, value = running.pop(0)
            values.append(value)
            searcher.on_trial_complete(trial, {METRIC: -value, "pruned": False})
    return min([*values, *(value for _, value in running)]) - OPTIMUM


@pytest.mark.full("unit/spaces/test_search_spaces.py::test_optuna_learns")
def test_tpe_beats_random_search() -> None:
    tpe, random = [], []
    for seed in range(SEEDS):
        sampler = build_sampler(TpeSearch(multivariate=True, group=False), SPACE, seed)
        tpe.append(regret(OptunaSearch(SPACE, metric=METRIC, mode="max", sampler=sampler)))
        options: dict[str, Any] = {"metric": METRIC, "mode": "max", "seed": seed}
        random.append(regret(VariantSearch(SPACE, num_samples=TRIALS, **options)))
    p_value = wilcoxon(tpe, random, alternative="less").pvalue
    figures = f"median regret {np.median(tpe):.3f} against {np.median(random):.3f}, p {p_value:.1e}"
    print(figures)
    assert np.median(tpe) < np.median(random) / 2 and p_value < 0.01, figures
