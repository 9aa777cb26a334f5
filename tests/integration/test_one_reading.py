"""What a sweep has left is read once at its end, by whoever shows it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from cheap_sweeps import drawn
from rich.console import Console
from sweep_dummy import NAME

from analysis.names import ENV_STEPS
from analysis.results import load
from analysis.results.records import TrialRecord
from experiments.commands.results.summary import show_outcome
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

pytestmark = pytest.mark.usefixtures("ray_here")


def test_each_trials_results_are_read_once_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    reader = load._trial_from_folder

    def counted(folder: Path, state: dict[str, Any]) -> TrialRecord:
        read.append(folder)
        return reader(folder, state)

    monkeypatch.setattr(load, "_trial_from_folder", counted)
    spec = make_spec(
        {
            "name": "sweep",
            "trainable": NAME,
            "storage": str(tmp_path),
            "search": "grid",
            "search_space": {"lr": {"grid": [0.01, 0.1]}, "num_epochs": {"grid": [1, 2, 4]}},
            "objective": [
                {"metric": "episode_return_mean"},
                {"metric": ENV_STEPS, "mode": "min"},
            ],
            "stop": {"training_iteration": 3},
        }
    )
    screen = io.StringIO()
    console = Console(file=screen, width=160)
    with drawn():
        outcome = run_sweep(Sweep.of(spec), console=console)
    show_outcome(outcome, spec, console)
    written = (outcome.best, outcome.checkpoint, outcome.curves, outcome.effects, outcome.report)
    assert [file is not None for file in written] == [True, False, True, True, True]
    assert outcome.pareto_picture is not None
    for shown in ("Pareto-optimal", "effect of each setting", "tunescape evaluate"):
        assert shown in screen.getvalue()
    assert len(read) == outcome.num_trials == len(set(read)) == 6
