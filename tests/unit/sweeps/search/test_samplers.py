"""Every sampler: reproducible, restored exactly, over spaces with transforms and conditions."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import covering

from experiments.search.optuna_search import OptunaSearch
from experiments.search.samplers import build_sampler
from experiments.spec.search_schema import SEARCHES, OptunaSection
from search_spaces import SearchSpace

METRIC, SIZE = "episode_return_mean", "size"
NUMBERS = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "num_epochs": {"randint": [1, 9]},
}
MIXED = {
    **NUMBERS,
    "kind": {"choice": ["a", "b", "c"]},
    "n_step": {"randint": [1, 6], "when": {"kind": ["a", "b"]}},
    "model.fcnet_hiddens": {"choice": [[64, 64], [32]]},
}
# Few random trials first, so that short tests reach what is particular to a sampler.
SECTIONS: dict[str, dict[str, Any]] = {
    "tpe": {"n_startup_trials": 4},
    "tpe group": {"n_startup_trials": 4, "multivariate": True, "group": True},
    "tpe alone": {"n_startup_trials": 4, "multivariate": False, "constant_liar": False},
    "cmaes": {"population_size": 4},
    "gp": {"n_startup_trials": 3},
    "sobol": {},
    "sobol halton": {"sequence": "halton", "scramble": False},
    "nsga2": {"population_size": 4},
    "nsga3": {"population_size": 4},
}


def searcher(
    name: str, space: SearchSpace, *, seed: int = 0, objectives: int = 1, **options: Any
) -> OptunaSearch:
    section: Any = SEARCHES[name.split()[0]](**SECTIONS[name])
    assert isinstance(section, OptunaSection)
    modes = [(METRIC, "max"), (SIZE, "min")][:objectives]
    return OptunaSearch(
        space,
        metric=METRIC,
        mode="max",
        sampler=build_sampler(section, space, seed),
        objectives=modes,
        **options,
    )


def outcome(config: dict[str, Any]) -> dict[str, Any]:
    """A cheap objective with an optimum inside."""
    value = -((math.log10(config["lr"]) + 2) ** 2) - 10 * (config["gamma"] - 0.97) ** 2
    value -= 0.1 * abs(config["num_epochs"] - 3) + (0.2 if config.get("kind") == "c" else 0)
    return {METRIC: value, SIZE: config["num_epochs"] + config["lr"], "pruned": False}


def run(search: OptunaSearch, ids: range, parallel: int = 2) -> list[dict[str, Any]]:
    """Suggest and complete trials, `parallel` at a time, as Tune does."""
    configs: dict[str, dict[str, Any]] = {}
    running: list[str] = []
    for number in ids:
        trial = str(number)
        configs[trial] = search.suggest(trial)
        running.append(trial)
        if len(running) == parallel:
            done = running.pop(number % parallel)
            search.on_trial_result(done, {**outcome(configs[done]), "training_iteration": 1})
            search.on_trial_complete(done, outcome(configs[done]))
    for done in running:
        search.on_trial_complete(done, outcome(configs[done]))
    return list(configs.values())


@pytest.mark.parametrize(
    ("name", "objectives"),
    [pair for pair in covering([*SECTIONS], (1, 2), strength=1) if pair.values != ("cmaes", 2)],
)
def test_a_restored_study_goes_on_as_the_uninterrupted_one(
    name: str, objectives: int, tmp_path: Path
) -> None:
    count = 8 if name == "gp" else 16  # a trial of GP's costs as much as 50 of TPE's
    space = SearchSpace.parse(MIXED)
    whole = searcher(name, space, objectives=objectives)
    first = run(whole, range(count // 2))
    whole.suggest("running")
    whole.save(str(tmp_path / "state"))
    rest = run(whole, range(count // 2, count))

    random.seed(99)
    np.random.seed(99)
    other = searcher(name, space, seed=5, objectives=objectives)
    other.restore(str(tmp_path / "state"))
    assert run(other, range(count // 2, count)) == rest
    other.on_trial_complete("running", outcome(first[0]))
    assert other.study.trials[count // 2].state.name == "COMPLETE"

    again = searcher(name, space, objectives=objectives)
    assert run(again, range(count // 2)) == first
    changed = run(searcher(name, space, seed=1, objectives=objectives), range(count // 2))
    assert (changed == first) == (name == "sobol halton")  # which is not randomised
    for config in [*first, *rest]:
        assert ("n_step" in config) == (config["kind"] in "ab")
        assert 1e-4 <= config["lr"] <= 1e-1 and 0.9 <= config["gamma"] <= 0.999
        assert config["model"]["fcnet_hiddens"] in ([64, 64], [32])
    assert len({config["kind"] for config in [*first, *rest]}) > 1
