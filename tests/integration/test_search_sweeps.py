"""Every search algorithm runs a real sweep from a spec."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pytest
from dummy_sweeps import configs, sweep, told_to_optuna
from rich.console import Console
from tiers import rarely

from experiments.commands.results.summary import show_outcome
from experiments.errors import PreflightError
from experiments.running.runner import resume_sweep
from experiments.spec.search_schema import SEARCHES
from experiments.sweep.folder import load_sweep_spec

SPACE = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "num_epochs": {"choice": [1, 2]},
    "gamma": {
        "loguniform": [1e-3, 0.1],
        "transform": "one_minus",
        "when": {"num_epochs": 2},
    },
}
POINT = {"gamma": 0.97, "num_epochs": 2}
SHORT: dict[str, dict[str, Any]] = {
    "tpe": {"n_startup_trials": 2},
    "cmaes": {"population_size": 4},
    "gp": {"n_startup_trials": 2},
    "nsga2": {"population_size": 2},
    "nsga3": {"population_size": 2},
}


ONE = {"stop": {"training_iteration": 1}, "seed": 0}

pytestmark = pytest.mark.usefixtures("ray_here")


# The others have sweeps elsewhere: below, in test_tuner.py and in test_scheduler_matrix.py.
@pytest.mark.parametrize("algorithm", rarely(SEARCHES, ["grid", "cmaes", "gp"]))
def test_every_algorithm_runs(algorithm: str, tmp_path: Path) -> None:
    search: dict[str, Any] = {"algorithm": algorithm, **SHORT.get(algorithm, {})}
    space: dict[str, Any] = dict(SPACE)
    count = 5
    if algorithm == "grid":
        space = {"num_epochs": {"grid": [1, 2]}, "gamma": {**SPACE["gamma"]}}
        space["gamma"] = {"choice": [0.01, 0.02, 0.03], **SPACE["gamma"]}
        del space["gamma"]["loguniform"]
        count = 4
    else:
        search["points_to_evaluate"] = [POINT]
    samples = {} if algorithm == "grid" else {"num_samples": count}
    outcome = sweep(tmp_path, **ONE, search=search, search_space=space, **samples)
    found = configs(outcome)
    assert len(found) == count and not outcome.failures
    assert all(("gamma" in config) == (config["num_epochs"] == 2) for config in found)
    # A child of an evolution may be its parent again.
    assert len({tuple(config.items()) for config in found}) >= count - ("nsga" in algorithm)
    if algorithm != "grid":
        assert {key: found[0][key] for key in POINT} == POINT
    assert outcome.best is not None


def test_two_objectives_leave_a_front(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        **ONE,
        search={"algorithm": "nsga2", "population_size": 2},
        search_space=SPACE,
        num_samples=5,
        objective=[{"metric": "episode_return_mean"}, {"metric": "time_total_s", "mode": "min"}],
    )
    front = pd.read_csv(outcome.folder / "pareto.csv")
    assert 1 <= len(front) <= 5 and list(front.columns[2:4]) == [
        "episode_return_mean",
        "time_total_s",
    ]
    assert outcome.pareto_picture == outcome.folder / "pareto.png"
    assert outcome.best is not None  # by the first objective
    console = Console(file=io.StringIO(), width=120)
    show_outcome(outcome, load_sweep_spec(outcome.folder), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"Pareto-optimal: {len(front)} of 5 trials" in shown and "time_total_s (min)" in shown
    assert all(len(trial.values) == 2 for trial in told_to_optuna(outcome.folder))


def test_a_sweep_starts_from_another_and_is_copied(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/optuna.db"
    keys: dict[str, Any] = {**ONE, "search_space": SPACE, "num_samples": 3}
    first = sweep(tmp_path, **keys, name="first", search="random")
    search = {
        "algorithm": "tpe",
        "n_startup_trials": 2,
        "warm_start": [{"folder": str(first.folder)}],
        "study_storage": uri,
    }
    outcome = sweep(tmp_path, **keys, name="second", search=search)
    study = optuna.load_study(study_name="second", storage=uri)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 6
    assert [trial.user_attrs.get("warm_start") for trial in study.trials] == [
        *[str(first.folder)] * 3,
        *[None] * 3,
    ]
    ids = {trial.trial_id for trial in outcome.results._experiment_analysis.trials}
    assert {trial.user_attrs["trial_id"] for trial in study.trials[3:]} == ids
    resume_sweep(outcome.folder)  # nothing is left to do, and nothing is there twice
    assert len(optuna.load_study(study_name="second", storage=uri).trials) == 6
    # Tune's own state names no storage: it might hold a password.
    assert uri.encode() not in b"".join(f.read_bytes() for f in outcome.folder.glob("*.pkl"))
    with pytest.raises(PreflightError, match="has a study 'second' already"):
        sweep(tmp_path, **keys, name="third", search={**search, "study_name": "second"})
