"""Every search with every scheduler that `experiments.spec.pairs` allows, for real.

By default those schedulers that no other sweep of the default tier has.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cheap_sweeps import drawn
from dummy_sweeps import ENV_STEPS, states_in_optuna, sweep
from sweep_dummy import STEPS

from analysis.overview.lineage import read_lineage
from analysis.results.schedulers import STOPPING
from experiments.running.results import Outcome
from experiments.spec.pairs import why_not
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.search_schema import SEARCHES

ITERATIONS = 4
OPTIONS: dict[str, dict[str, Any]] = {
    "asha": {"grace_period": STEPS, "reduction_factor": 2},
    "hyperband": {"grace_period": 2 * STEPS, "reduction_factor": 2},
    "median_stopping": {"grace_period": STEPS, "min_samples_required": 1},
    "pbt": {"perturbation_interval": STEPS, "quantile_fraction": 0.5, "synch": True},
    "pb2": {"perturbation_interval": STEPS, "quantile_fraction": 0.5, "synch": True},
    "pbt_replay": {"schedule": [[0, {"lr": 0.02}], [2 * STEPS, {"lr": 0.015}]]},
}
BY_DEFAULT = {("tpe", "hyperband"), ("sobol", "median_stopping"), ("random", "pb2")}
# From bad to good, so that the last ones of a rung are not the ones that go on.
RATES = [0.09, 0.05, 0.01]


pytestmark = pytest.mark.usefixtures("ray_here")


def run(folder: Path, search: str, scheduler: str) -> Outcome:
    # Without reuse of processes each trial costs seconds.
    num_trials = 2 if scheduler == "resource_changing" else 3
    space: dict[str, Any] = {"lr": {"uniform": [0.005, 0.1]}}
    if search == "grid":
        space = {"lr": {"grid": RATES[:num_trials]}}
    if scheduler == "pbt_replay":
        space = {"gamma": {"choice": [0.9, 0.99, 0.95]}}
    return sweep(
        folder,
        stop={ENV_STEPS: ITERATIONS * STEPS},
        search=search,
        search_space=space,
        num_samples=1 if search == "grid" else num_trials,
        scheduler={"algorithm": scheduler, **OPTIONS.get(scheduler, {})},
        seed=1,
    )


def rows(outcome: Outcome) -> list[list[dict[str, Any]]]:
    files = sorted(outcome.folder.glob("*/result.json"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def pairs() -> Iterator[Any]:
    """All that are allowed; those that start a process for every trial take long."""
    for search, scheduler in itertools.product(SEARCHES, SCHEDULERS):
        long = scheduler == "resource_changing" and search != "random"
        later = pytest.mark.slow if long else pytest.mark.full
        if why_not(search, scheduler) is None:
            marks = [] if (search, scheduler) in BY_DEFAULT else [later]
            yield pytest.param(search, scheduler, marks=marks)


@pytest.mark.parametrize(("search", "scheduler"), list(pairs()))
def test_every_allowed_pair_runs(search: str, scheduler: str, tmp_path: Path) -> None:
    with drawn() if scheduler in ("pbt", "pb2") else nullcontext():
        outcome = run(tmp_path, search, scheduler)
    assert not outcome.failures and outcome.best is not None
    trials = rows(outcome)
    assert len(trials) == outcome.num_trials == (2 if scheduler == "resource_changing" else 3)
    lengths = [trial[-1]["training_iteration"] for trial in trials]
    assert max(lengths) == ITERATIONS
    if scheduler not in STOPPING:
        assert min(lengths) == ITERATIONS
    assert {t.status for t in outcome.results._experiment_analysis.trials} == {"TERMINATED"}
    if scheduler == "hyperband":
        assert sorted(lengths) == [2, 4, 4]  # two trials are compared, one has the full budget
        if search not in ("grid", "random"):
            assert states_in_optuna(outcome.folder) == ["COMPLETE", "COMPLETE", "PRUNED"]
    if scheduler in ("pbt", "pb2"):
        assert read_lineage(outcome.folder) and outcome.lineage is not None
    if scheduler == "pbt_replay":
        for trial in trials:
            assert [row["config"]["lr"] for row in trial] == [0.02, 0.02, 0.015, 0.015]
