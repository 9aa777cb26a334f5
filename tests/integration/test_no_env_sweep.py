"""Sweeps of an algorithm whose training steps no environment, from the spec to the report."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from cheap_sweeps import drawn
from cloning import NUM_ROWS, SMALL, Cloning
from mlflow_client import mlflow_client
from ray import tune
from rich.console import Console

from analysis import load_sweep
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.results.summary import show_outcome
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.seeds.multi_seed import with_seeds
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

pytestmark = pytest.mark.usefixtures("ray_here")

RETURN, TRAINED = "evaluation/episode_return_mean", "num_env_steps_trained_lifetime"
EVALUATED: dict[str, Any] = {
    "evaluation_interval": 1,
    "evaluation_duration": 2,
    "evaluation_config": {"env": "CartPole-v1"},
}


def sweep(tmp_path: Path, **keys: Any) -> Sweep:
    data = {
        "name": "clones",
        "trainable": "cloning:Cloning",
        "config": {**SMALL, **EVALUATED},
        "search_space": {"lr": {"loguniform": [1e-4, 1e-2]}},
        "num_samples": 3,
        "stop": {TRAINED: 8 * NUM_ROWS},
        "checkpoint": {"frequency": 2},
        "storage": str(tmp_path),
        "mlflow": {"enabled": False},
    }
    return Sweep.of(make_spec({**data, **keys}))


def words_of(outcome: Outcome) -> str:
    page = (outcome.folder / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"<(script|style|svg).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))


def test_a_sweep_is_judged_by_evaluations_and_reported(tmp_path: Path) -> None:
    made = sweep(tmp_path, scheduler="asha", mlflow={})
    with drawn():
        outcome = run_sweep(made)
    assert outcome.succeeded and not outcome.failures
    trials = load_sweep(outcome.folder).trials
    assert {trial.status for trial in trials} == {"TERMINATED"}
    assert max(trial.last(TRAINED) or 0 for trial in trials) == 8 * NUM_ROWS
    shown = Console(width=200, file=io.StringIO())
    show_outcome(outcome, made.spec, shown)
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert RETURN in text and "env steps" not in text and "Best policy" in text
    words = words_of(outcome)
    assert "trials of cloning:Cloning on CartPole-v1" in words
    assert "up to 2,048 steps trained on each" in words and "Trained steps" in words
    assert "nvironment steps" not in words
    assert evaluate_folder(outcome.folder, episodes=3).environment == "CartPole-v1"
    # A client of its own: the tracking URI of the process would be the next test's, too.
    client = mlflow_client(made.tracking_uri)
    found = client.search_runs([e.experiment_id for e in client.search_experiments()])
    played = [run.data.params.get("evaluation_config/env") for run in found]  # the sweep's: None
    assert {*played} - {None} == {"CartPole-v1"}
    reported = {name for run in found for name in run.data.metrics}
    assert RETURN in reported and "episode_return_mean" not in reported


def test_a_population_goes_on_from_its_donors_and_a_sweep_resumes(tmp_path: Path) -> None:
    pbt = {"algorithm": "pbt", "perturbation_interval": 2 * NUM_ROWS, "mutations": ["lr"]}
    made = sweep(tmp_path, scheduler=pbt)
    outcome = run_sweep(made)
    assert outcome.succeeded and not outcome.failures
    assert all(t.last(TRAINED) == 8 * NUM_ROWS for t in load_sweep(outcome.folder).trials)
    assert resume_sweep(outcome.folder).succeeded


def test_learners_and_evaluations_in_actors() -> None:
    actors = {"evaluation_num_env_runners": 1, "evaluation_parallel_to_training": True}
    losses = []
    for settings in ({}, {"num_learners": 1, **actors}):
        with Cloning(config={"seed": 3, **SMALL, **EVALUATED, **settings}) as algo:
            results = [algo.train() for _ in range(2)]
        losses.append(results[-1]["learner/default_policy/policy_loss"])
        assert results[-1]["evaluation/num_episodes"] == 2
    assert losses[0] == losses[1]


def test_plain_tune_with_seeds(tmp_path: Path) -> None:
    """In each iteration seeds go equally far, which is an iteration of each."""
    tuner = tune.Tuner(
        with_seeds(Cloning, 2, metric=RETURN),
        param_space={**SMALL, **EVALUATED, "lr": tune.grid_search([1e-3, 1e-2])},
        tune_config=tune.TuneConfig(metric=RETURN, mode="max"),
        run_config=tune.RunConfig(storage_path=str(tmp_path), stop={TRAINED: 500}, verbose=0),
    )
    results = tuner.fit()
    assert not results.errors
    best = results.get_best_result().metrics
    assert best is not None and best[TRAINED] == 2 * NUM_ROWS and best["num_seeds"] == 2
