"""Which trials shared a process: said of them, and never taken for what they learned."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from analysis_sweeps import make_sweep, row

from analysis import (
    ResultsError,
    compare,
    cost_frame,
    curves_frame,
    leaderboard,
    load_sweep,
    trials_frame,
    write_frame,
)
from analysis.names import HOST, host_of
from analysis.results.shared_time import batching_of
from experiments.commands.results.summary import batching_line


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


def seconds_rows(host: int | None, start: int, *took: float) -> list[dict[str, Any]]:
    """Iterations that follow each other; results say whole seconds."""
    total, rows = 0.0, []
    for iteration, seconds in enumerate(took, start=1):
        total += seconds
        more = {} if host is None else {"host": host}
        times = {"time_this_iter_s": seconds, "time_total_s": total}
        rows.append(
            row(iteration, 1.0, **more) | times | {"timestamp": 1000 + math.floor(start + total)}
        )
    return rows


def test_time_that_trials_share_is_shared_out(tmp_path: Path) -> None:
    """In process 0 four trials for ten seconds, then one alone; e shares nothing."""
    short = [0.4] * 25
    trials = {
        "a": {"rows": seconds_rows(0, 0, *short, 5.0, 5.0)},
        "b": {"rows": seconds_rows(0, 0, *short)},
        "c": {"rows": seconds_rows(0, 0, 10.0)},
        "d": {"rows": seconds_rows(0, 0, 5.0, 5.0)},
        "e": {"rows": seconds_rows(1, 0, 5.0, 5.0)},
        "f": {"rows": seconds_rows(None, 0, 8.0)},
        "g": {"rows": []},
    }
    sweep = make_sweep(tmp_path, trials)
    own = {t.trial_id: t.seconds() for t in load_sweep(sweep).trials}
    ends = {name: float(of.iloc[-1]) for name, of in own.items() if len(of)}
    # Results say whole seconds: of iterations of 0.4 s up to one is uncertain, a share of it here.
    assert ends == pytest.approx(
        {"a": 12.5, "b": 2.5, "c": 2.5, "d": 2.5, "e": 10, "f": 8}, abs=0.25
    )
    assert sum(ends[name] for name in "abcd") == pytest.approx(
        20, abs=0.5
    )  # what process 0 trained
    assert own["d"].tolist() == pytest.approx([1.25, 2.5])
    cost = cost_frame(sweep).set_index("trial_id")["wall_s"]
    assert cost["d"] == pytest.approx(2.5) and cost["f"] == 8 and cost["g"] == 0
    # The clock is what it was.
    assert trials_frame(sweep)["time_total_s"].max() == pytest.approx(20)


def test_a_comparison_counts_shared_time_once(tmp_path: Path) -> None:
    """Eight seeds in one process take 16 seconds; each by itself takes 3."""
    rows = {
        "batched": seconds_rows(0, 0, 8.0, 8.0),
        "alone": seconds_rows(None, 0, 1.5, 1.5),
    }
    folders = [
        make_sweep(
            tmp_path,
            {f"{name}{k}": {"rows": of_run, "config": {"env": "E", "seed": k}} for k in range(8)},
            name,
        )
        for name, of_run in rows.items()
    ]
    summary = compare(folders).summary.set_index("algorithm")
    assert summary["seconds"].to_dict() == pytest.approx({"batched": 2, "alone": 3})
    assert summary["total_wall_hours"].to_dict() == pytest.approx(
        {"batched": 16 / 3600, "alone": 24 / 3600}
    )
    assert compare(folders, x="time_total_s").budget == pytest.approx(2)


def test_what_sharing_saved_is_an_estimate_from_iterations_alone(tmp_path: Path) -> None:
    """Four trials of ten iterations in 20 s; one goes on alone, an iteration a second."""
    together = [2.0] * 10
    trials = {n: {"rows": seconds_rows(0, 0, *together)} for n in "abc"}
    trials["d"] = {"rows": seconds_rows(0, 0, *together, *[1.0] * 5)}
    found = load_sweep(make_sweep(tmp_path, trials, "uneven")).trials
    assert batching_of([trial.frame for trial in found]) == (4, 1, 23.0, 5, 1.0, 41.0)
    assert batching_line(found) == (
        "trial_batching: 4 trials in 1 process trained for 23 s, without the first iteration of "
        "each. One at a time in each process they would have taken about 41 s (estimated from "
        "5 iterations of trials that were alone in their process, median 1 s)."
    )
    even = load_sweep(make_sweep(tmp_path, {n: trials[n] for n in "abc"}, "even")).trials
    assert "The saved time is not known: no trial was alone" in batching_line(even)
    own = {n: {"rows": seconds_rows(None, 0, 1.0)} for n in "ab"}
    assert batching_line(load_sweep(make_sweep(tmp_path, own, "own")).trials) == ""
