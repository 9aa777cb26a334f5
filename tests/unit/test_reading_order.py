"""Tables begin with what their readers look for, also on a narrow screen."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml
from analysis_sweeps import make_sweep

from analysis import curves_frame, leaderboard, trials_frame
from experiments.commands.frames import make_frame

FAMILIES = ("learner/default_policy/policy_loss", "time/sample_s")


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Results as they are reported: losses come before returns."""
    rows = [
        {
            **dict.fromkeys(FAMILIES, 0.5),
            "env_steps_per_second": 9.0,
            "score": float(number),
            "episode_return_mean": 10.0 * number,
            "time_total_s": 1.0,
            "num_env_steps_sampled_lifetime": 100 * number,
            "training_iteration": number,
        }
        for number in (1, 2)
    ]
    trials = {f"t{lr}": {"rows": rows, "config": {"lr": lr}} for lr in (0.1, 0.2)}
    return make_sweep(tmp_path, trials)


def metrics(frame: pd.DataFrame) -> list[str]:
    own = ("trial_id", "status", "training_iteration")
    return [c for c in frame if c not in own and not c.startswith("config/")]


def test_the_objective_comes_first_and_losses_last(sweep: Path) -> None:
    spec = sweep / "spec.yaml"
    for objective, first in (
        (None, "episode_return_mean"),
        ({"objective": {"metric": "score", "mode": "min"}}, "score"),
        ({"objective": {"mode": "max"}}, "episode_return_mean"),
        ({"objectives": [{"metric": "score"}, {"metric": "env_steps_per_second"}]}, "score"),
    ):
        if objective is not None:
            spec.write_text(yaml.safe_dump(objective))
        trials = metrics(trials_frame(sweep))
        assert trials[0] == first
        assert trials[-2:] == list(FAMILIES)
        curves = curves_frame(sweep)
        steps = ["num_env_steps_sampled_lifetime", "time_total_s"]
        assert curves.columns.tolist()[:5] == ["trial_id", "training_iteration", *steps, first]
        assert metrics(curves)[-2:] == list(FAMILIES)
        assert metrics(make_frame("trials", [str(sweep)]))[0] == first
    assert trials[1] == "env_steps_per_second"  # the second objective


def test_a_leaderboard_on_a_narrow_screen(sweep: Path) -> None:
    board = leaderboard(sweep, "score")
    assert board.columns.tolist()[:6] == ["rank", "trial_id", "last", "best", "config/lr", "status"]
    with pd.option_context("display.width", 60, "display.max_columns", 7):
        shown = str(board)
    assert "2.0" in shown.splitlines()[1] and "last" in shown.splitlines()[0]
