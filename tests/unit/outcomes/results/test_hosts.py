"""Which trials shared a process: said of them, and never taken for what they learned."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from analysis_sweeps import make_sweep, row

from analysis import ResultsError, curves_frame, leaderboard, load_sweep, trials_frame, write_frame
from analysis.names import HOST, host_of


@pytest.mark.parametrize(
    ("value", "host"),
    [
        (0, 0),
        (1.0, 1),
        (np.int64(2), 2),
        (np.float64(3), 3),
        (math.nan, None),
        (math.inf, None),
        (0.5, None),
        (True, None),
        (np.True_, None),
        ("node-1", None),
        (None, None),
    ],
)
def test_a_host_is_a_whole_number(value: Any, host: int | None) -> None:
    assert host_of({HOST: value}) == host
    assert host_of({}) is None


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Trial b began in process 0 and went on in 1; c reported nothing."""
    moved = [row(1, 1.0, host=0), row(2, 2.0, host=1), row(3, 3.0, host=1)]
    trials = {
        "a": {"rows": [row(i, float(i), host=0) for i in (1, 2)]},
        "b": {"rows": moved},
        "c": {"rows": [], "status": "ERROR"},
        "d": {"rows": [row(1, 0.5, host=1)]},
    }
    return make_sweep(tmp_path, trials)


def test_a_trial_is_of_the_host_that_trained_it_last(sweep: Path) -> None:
    found = load_sweep(sweep)
    assert {t.trial_id: t.host for t in found.trials} == {"a": 0, "b": 1, "c": None, "d": 1}
    assert found.hosts == {0: 1, 1: 2}


def test_trials_have_a_column_of_whole_numbers(sweep: Path, tmp_path: Path) -> None:
    frame = trials_frame(sweep)
    assert frame.columns.tolist()[:4] == ["trial_id", "status", "host", "training_iteration"]
    assert str(frame["host"].dtype) == "Int64"
    assert frame["host"].tolist()[:2] == [0, 1] and frame["host"].iloc[2] is pd.NA
    assert "config/host" not in frame and "config/host" not in frame.attrs["varying"]
    lines = write_frame(frame, tmp_path / "trials.csv").read_text().splitlines()
    assert lines[1].startswith("a,TERMINATED,0,2,") and lines[3].startswith("c,ERROR,,0,")


def test_curves_say_where_each_iteration_was_trained(sweep: Path) -> None:
    curves = curves_frame(sweep)
    assert curves.loc[curves["trial_id"] == "b", "host"].tolist() == [0, 1, 1]
    assert "host" not in curves_frame(sweep, ["episode_return_mean"])


def test_it_is_no_metric(sweep: Path) -> None:
    with pytest.raises(ResultsError, match=r"no trial reported the metric 'host'(?!.*host)"):
        leaderboard(sweep, "host")
    with pytest.raises(ResultsError, match=r"reported the metric 'hots'(?!.*host)"):
        leaderboard(sweep, "hots")


def test_trials_of_processes_of_their_own_have_no_such_column(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": {"rows": [row(1, 1.0)]}, "b": {"rows": []}})
    assert load_sweep(sweep).hosts == {}
    assert "host" not in trials_frame(sweep) and "host" not in leaderboard(sweep)


def test_a_text_of_that_name_stays(tmp_path: Path) -> None:
    """Of a trainable of one's own: whatever else it is, it is no process of the sweep."""
    sweep = make_sweep(tmp_path, {n: {"rows": [row(1, 1.0, host=f"node-{n}")]} for n in "ab"})
    assert trials_frame(sweep)["host"].tolist() == ["node-a", "node-b"]
    assert load_sweep(sweep).hosts == {} and "host" not in leaderboard(sweep)
