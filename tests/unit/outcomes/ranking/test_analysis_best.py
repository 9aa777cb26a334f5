"""Ranking, the best checkpoint and its export."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import add_checkpoint, make_sweep, row

from analysis import (
    ResultsError,
    best_checkpoint,
    best_trial,
    export_best,
    leaderboard,
)

NAN = float("nan")
METRIC = "episode_return_mean"


def rows(*values: float | None) -> dict[str, Any]:
    return {"rows": [row(i, v) for i, v in enumerate(values, start=1)]}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """The peak (90) is of t1 at iteration 2, which has checkpoints of iterations 1 and 3 only."""
    folder = make_sweep(
        tmp_path,
        {
            "t0": rows(10.0, 80.0, 30.0),
            "t1": rows(20.0, 90.0, 70.0),
            "t2": rows(NAN, NAN, NAN),
            "t3": rows(NAN, 50.0, NAN),
        },
    )
    for name in ("t0", "t1", "t2", "t3"):
        for index, iteration in enumerate((1, 3) if name == "t1" else (2, 3)):
            add_checkpoint(folder, name, index, iteration=iteration)
    return folder


def test_leaderboard(sweep: Path) -> None:
    frame = leaderboard(sweep, METRIC, "max")
    assert frame["trial_id"].tolist() == ["t1", "t3", "t0", "t2"]
    assert frame.columns.tolist()[:4] == ["rank", "trial_id", "last", "best"]
    assert frame["rank"].tolist()[:3] == [1, 2, 3]
    assert frame["rank"].isna().tolist() == [False, False, False, True]
    assert frame["best"].tolist()[:3] == [90.0, 50.0, 80.0]
    assert math.isnan(frame["best"].iloc[3])
    assert frame["last"].tolist()[:3] == [70.0, 50.0, 30.0]
    assert frame["best_iteration"].tolist()[:3] == [2, 2, 2]
    assert frame["num_env_steps_sampled_lifetime"].tolist() == [300] * 4
    assert frame["time_total_s"].tolist() == [1.5] * 4
    assert frame.attrs["metric"] == METRIC


def test_leaderboard_says_which_trials_shared_a_process(sweep: Path, tmp_path: Path) -> None:
    assert "host" not in leaderboard(sweep, METRIC)
    trials = {"a": {"rows": [{**r, "host": 1} for r in rows(1.0, 2.0)["rows"]]}, "b": rows(1.0)}
    frame = leaderboard(make_sweep(tmp_path, trials, "hosted"), METRIC)
    assert frame.columns[list(frame.columns).index("status") + 1] == "host"
    assert frame["host"].tolist()[0] == 1 and frame["host"].isna().tolist() == [False, True]


def test_leaderboard_of_a_minimum_and_its_top(sweep: Path) -> None:
    frame = leaderboard(sweep, METRIC, "min", top=2)
    assert frame["trial_id"].tolist() == ["t0", "t3"]
    assert frame["last"].tolist() == [30.0, 50.0]


def test_who_reports_more_often_has_no_luckier_rank(tmp_path: Path) -> None:
    often = rows(40.0, 95.0, 35.0, 60.0, 50.0)
    sweep = make_sweep(tmp_path, {"often": often, "seldom": rows(50.0, 55.0)})
    assert leaderboard(sweep)["trial_id"].tolist() == ["seldom", "often"]
    assert best_trial(sweep).trial_id == "seldom"


def test_ties_go_to_who_was_there_first_then_to_the_better_curve(tmp_path: Path) -> None:
    sweep = make_sweep(
        tmp_path,
        {"low": rows(1.0, 500.0), "slow": rows(1.0, 600.0, 500.0), "fast": rows(600.0, 500.0)},
    )
    assert leaderboard(sweep)["trial_id"].tolist() == ["fast", "slow", "low"]


def test_infinity_never_wins(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": rows(math.inf, 5.0), "b": rows(7.0, -math.inf)})
    assert best_trial(sweep).trial_id == "b"
    assert leaderboard(sweep)["best"].tolist() == [7.0, 5.0]


def test_varying_hyperparameters_are_columns(tmp_path: Path) -> None:
    config = {"env": "X", "model": {"width": 8}}
    sweep = make_sweep(
        tmp_path,
        {
            "a": {"config": {**config, "lr": 0.1}, **rows(1.0)},
            "b": {"config": {**config, "lr": 0.2}, **rows(2.0)},
        },
    )
    frame = leaderboard(sweep)
    assert [c for c in frame if c.startswith("config/")] == ["config/lr"]
    assert frame["config/lr"].tolist() == [0.2, 0.1]


def test_the_best_checkpoint_is_the_best_one_of_the_best_trial(sweep: Path) -> None:
    best = best_checkpoint(sweep, METRIC, "max")  # not t0's, which had 80 in passing
    assert (best.trial.trial_id, best.path.name, best.value) == ("t1", "checkpoint_000001", 70.0)
    shutil.rmtree(best.path)
    best = best_checkpoint(sweep, METRIC, "max")
    assert (best.trial.trial_id, best.path.name, best.value) == ("t1", "checkpoint_000000", 20.0)
    lowest = best_checkpoint(sweep, METRIC, "min")  # neither the trial's latest nor its lowest: 10
    assert (lowest.trial.trial_id, lowest.value) == ("t0", 30.0)


def test_a_trial_without_checkpoints_is_passed_over(sweep: Path) -> None:
    for folder in (sweep / "trial_t1").glob("checkpoint_*"):
        shutil.rmtree(folder)
    assert best_trial(sweep).trial_id == "t1"
    best = best_checkpoint(sweep)
    assert (best.trial.trial_id, best.value) == ("t3", 50.0)


def test_checkpoints_of_nan_results_are_passed_over(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": rows(NAN, 3.0, NAN), "b": rows(NAN)})
    for index, iteration in enumerate((1, 2, 3)):
        add_checkpoint(sweep, "a", index, iteration=iteration)
    add_checkpoint(sweep, "b", 0, iteration=1)
    assert best_checkpoint(sweep).path.name == "checkpoint_000001"


def test_a_deleted_checkpoint_is_passed_over(sweep: Path) -> None:
    shutil.rmtree(sweep / "trial_t1" / "checkpoint_000001")
    best = best_checkpoint(sweep)
    assert (best.trial.trial_id, best.value) == ("t1", 20.0)


def test_of_equal_checkpoints_the_more_trained_one(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": rows(500.0, 500.0)})
    add_checkpoint(sweep, "a", 0, iteration=1)
    add_checkpoint(sweep, "a", 1, iteration=2)
    assert best_checkpoint(sweep).path.name == "checkpoint_000001"


def test_why_there_is_no_best_checkpoint(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": rows(NAN, 1.0)})
    with pytest.raises(ResultsError, match="it has no checkpoints"):
        best_checkpoint(sweep)
    add_checkpoint(sweep, "a", 0)
    with pytest.raises(ResultsError, match="pass the ResultGrid"):
        best_checkpoint(sweep)
    add_checkpoint(sweep, "a", 1, iteration=1)
    with pytest.raises(ResultsError, match="none of its 1 checkpoints has a finite value"):
        best_checkpoint(sweep)


def test_all_nan(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": rows(NAN)})
    with pytest.raises(ResultsError, match="NaN or infinite"):
        best_trial(sweep)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "maximum"}, "mode must be 'max' or 'min', not 'maximum'"),
        ({"metric": "episode_return_men"}, "did you mean 'episode_return_mean'"),
        ({"top": 0}, "top must be at least 1"),
    ],
)
def test_bad_arguments(sweep: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        leaderboard(sweep, **arguments)


def test_export(sweep: Path, tmp_path: Path) -> None:
    out = export_best(sweep, tmp_path / "deep" / "best", METRIC, "max")
    assert out == tmp_path / "deep" / "best"
    assert json.loads((out / "policy.json").read_text())["from"] == "t1/1"
    assert (out / "weights.safetensors").read_bytes() == b"weights"
    assert json.loads((out / "export.json").read_text()) == {
        "sweep": "sweep",
        "trial_id": "t1",
        "checkpoint": "trial_t1/checkpoint_000001",
        "metric": METRIC,
        "mode": "max",
        "value": 70.0,
        "training_iteration": 3,
        "num_env_steps_sampled_lifetime": 300,
        "config": {"lr": 0.1},
    }
    assert os.listdir(out.parent) == ["best"]  # no temporary folder is left behind


def test_export_replaces_a_policy_whole(sweep: Path, tmp_path: Path) -> None:
    out = export_best(sweep, tmp_path / "best", METRIC, "max")
    (out / "stale").write_text("of the export before")
    export_best(sweep, out, METRIC, "min")
    assert json.loads((out / "policy.json").read_text())["from"] == "t0/1"
    assert not (out / "stale").exists()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_export_leaves_what_is_no_policy_alone(sweep: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "mine"
    if kind == "folder":
        target.mkdir()
        (target / "thesis.tex").write_text("years of work")
    else:
        target.write_text("years of work")
    with pytest.raises(ResultsError, match="left alone"):
        export_best(sweep, target)
    kept = target / "thesis.tex" if kind == "folder" else target
    assert kept.read_text() == "years of work"


def test_export_that_fails_keeps_the_policy_before(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export_best(sweep, tmp_path / "best", METRIC, "max")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(ResultsError, match="No space left"):
        export_best(sweep, out, METRIC, "min")
    assert json.loads((out / "policy.json").read_text())["from"] == "t1/1"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".best")]


def test_export_of_a_checkpoint_without_a_policy(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": rows(1.0)})
    add_checkpoint(sweep, "a", 0, iteration=1, policy=False)
    with pytest.raises(ResultsError, match="it holds no policy"):
        export_best(sweep, tmp_path / "best")
    assert not (tmp_path / "best").exists()
