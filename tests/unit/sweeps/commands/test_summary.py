"""The tables that the terminal shows when a sweep has ended."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from analysis_sweeps import make_sweep, row
from rich.console import Console

from analysis import leaderboard
from analysis.ranking.held_out import Candidate
from experiments.cli import show_warning
from experiments.commands.results.summary import LeaderboardTable, never_replaced, show_final
from experiments.running.final import Final
from experiments.running.results import Outcome
from experiments.spec.scheduler_schema import FifoScheduler
from experiments.sweep.load import make_spec


def test_the_leaderboard_goes_by_the_last_value(tmp_path: Path) -> None:
    peak = {"rows": [row(1, 90.0), row(2, 10.0)]}
    sweep = make_sweep(tmp_path, {"peak": peak, "end": {"rows": [row(1, 20.0), row(2, 19.0)]}})
    console = Console(file=io.StringIO(), width=120)
    console.print(LeaderboardTable(leaderboard(sweep), "episode_return_mean", 2))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    rows = [line.split()[:4] for line in lines]
    assert ["#", "trial", "last", "best"] in rows
    assert rows.index(["1", "end", "19", "20"]) + 1 == rows.index(["2", "peak", "10", "90"])


def test_a_population_that_replaced_no_trial_says_so(tmp_path: Path) -> None:
    spec = make_spec(
        {
            "name": "s",
            "trainable": "sweep_dummy:Dummy",
            "search_space": {"lr": {"uniform": [0.1, 1]}},
            "num_samples": 4,
            "scheduler": "pbt",
            "stop": {"num_env_steps_sampled_lifetime": 100},
        }
    )
    outcome = Outcome(None, tmp_path, False, succeeded=True)  # type: ignore[arg-type]
    assert never_replaced(outcome, spec)
    (tmp_path / "lineage.jsonl").touch()
    assert not never_replaced(outcome, spec)
    other = spec.model_copy(update={"scheduler": FifoScheduler()})
    (tmp_path / "lineage.jsonl").unlink()
    assert not never_replaced(outcome, other)


def test_warnings_for_users_are_notes(capsys: pytest.CaptureFixture[str]) -> None:
    show_warning("the graph is compared on less", UserWarning, "exporting.py", 129)
    assert capsys.readouterr().err == "Note: the graph is compared on less\n"
    show_warning("removed in 3.0", DeprecationWarning, "exporting.py", 129)
    assert "exporting.py:129: DeprecationWarning: removed" in capsys.readouterr().err


SETTINGS = {"lr": 0.000259123, "gamma": 0.9791234, "clip_param": 0.2145712, "num_epochs": 10}


@pytest.mark.parametrize(("width", "left_out"), [(60, ["clip_param", "num_epochs"]), (100, [])])
def test_no_number_of_the_leaderboard_is_cut(
    tmp_path: Path, width: int, left_out: list[str]
) -> None:
    trials = {
        f"t{number}": {
            "rows": [row(1, 90.0 + number)],
            "config": {name: number * value for name, value in SETTINGS.items()},
            "searched": {name: number * value for name, value in SETTINGS.items()},
        }
        for number in (1, 2)
    }
    console = Console(file=io.StringIO(), width=width)
    frame = leaderboard(make_sweep(tmp_path, trials))
    console.print(LeaderboardTable(frame, "episode_return_mean", 2))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in shown.splitlines())
    (best,) = (line.split() for line in shown.splitlines() if " t2 " in line)
    kept = [name for name in SETTINGS if name not in left_out]
    assert best[5:] == [f"{2 * SETTINGS[name]:.4g}" for name in kept]
    (*_, last) = shown.splitlines()
    assert (f"no room for {', '.join(left_out)}" in last) == bool(left_out)


def test_the_final_compares_values_at_the_end(tmp_path: Path) -> None:
    found = Candidate("t", {}, search_last=60.0, search_best=95.0, values={1: 40.0, 2: 50.0})
    spec = make_spec({"name": "s", "config": {"env": "CartPole-v1"}, "stop": {"time_total_s": 1}})
    console = Console(file=io.StringIO(), width=160)
    show_final(Final([found], found, [1, 2], tmp_path / "r", None, [], False), spec, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    (line,) = (line for line in shown.splitlines() if "winner" in line and "+" in line)
    assert line.split()[:4] == ["t", "60", "95", "45"] and "+15" in line
    assert "search: the value at the end of the trial in the search" in shown
