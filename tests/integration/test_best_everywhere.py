"""A sweep of which most trials end alike names one best trial, wherever it names one."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from mlflow_client import mlflow_client
from rich.console import Console

from analysis import best_checkpoint, leaderboard
from experiments.commands.results.summary import show_outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

METRIC = "episode_return_mean"
RATES = [0.5, 0.2, 0.4, 0.01, 0.3]  # the return is 4 after 8, 5, 7, 4 and 6 iterations


pytestmark = pytest.mark.usefixtures("ray_here")


def test_five_equal_trials_have_one_best_on_screen_in_the_folder_and_in_mlflow(
    tmp_path: Path,
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=160, force_terminal=False)
    data = {
        "name": "sweep",
        "trainable": "sweep_dummy:Capped",
        "storage": str(tmp_path),
        "stop": {"training_iteration": 9},
        "search_space": {"lr": {"grid": RATES}},
        "search": "grid",
        "num_samples": 1,
        "checkpoint": {"frequency": 1},
    }
    spec = make_spec(data)
    outcome = run_sweep(Sweep.of(spec), console=console)
    show_outcome(outcome, spec, console)
    text = screen.getvalue()

    board = leaderboard(outcome.results)
    assert board["last"].tolist() == [4.0] * 5
    assert board["config/lr"].tolist() == sorted(RATES)
    first = board["trial_id"].iloc[0]
    # On the screen: the last line about the sweep, the last trial called best, the table's first.
    assert re.findall(rf"best {METRIC} 4 \((\w+)\)", text)[-1] == first
    assert re.findall(r"trial (\w+) finished .* best so far", text)[-1] == first
    assert re.findall(r"^ *1 +(\w+)", text, re.MULTILINE)[0] == first
    assert "Equal values rank by fewer env steps to reach them" in " ".join(text.split())
    # In the folder.
    assert best_checkpoint(outcome.results).trial.trial_id == first
    assert outcome.best is not None
    origin = json.loads((outcome.best / "export.json").read_text())
    assert origin["trial_id"] == first
    # In MLflow.
    client = mlflow_client(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs([found.experiment_id for found in client.search_experiments()])
    tags = [run.data.tags for run in runs]
    assert {t["tunescape.best_trial_id"] for t in tags if "tunescape.best_trial_id" in t} == {first}
    assert [t["tunescape.trial_id"] for t in tags if t.get("tunescape.best")] == [first]
    (note,) = [t["mlflow.note.content"] for t in tags if "tunescape.best_trial_id" in t]
    assert f"of trial `{first}`" in note

    # A resume of what is finished still knows who was best.
    screen.seek(0)
    screen.truncate()
    resume_sweep(outcome.folder, console=console)
    assert re.findall(rf"best {METRIC} 4 \((\w+)\)", screen.getvalue())[-1] == first
