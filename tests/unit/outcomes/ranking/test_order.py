"""Which trial is first: one rule for equal values, in every place that names a best one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from analysis_sweeps import add_checkpoint, make_sweep, row
from rich.console import Console

from analysis import best_checkpoint, best_trial, export_best, leaderboard
from analysis.overview.lineage import winner
from analysis.overview.overview import ReportData
from analysis.ranking.order import Course, best_first, of_runs
from analysis.report.words import summary
from analysis.results.load import load_sweep
from experiments.monitor.progress import Progress
from experiments.monitor.progress_text import LiveOrder
from experiments.tracking.artifacts import sweep_note

METRIC, STEPS = "episode_return_mean", "num_env_steps_sampled_lifetime"
NAN = math.nan

# Five that end at 500. By the last of them, the made-up names say who is which.
CURVES = {
    "slow": [100.0, 200.0, 300.0, 400.0, 500.0],
    "late": [500.0, 100.0, 100.0, 100.0, 500.0],  # had it first, though it lost it again
    "steep": [100.0, 500.0, 490.0, 500.0],
    "flat": [90.0, 500.0, 490.0, 500.0],
    "flat_too": [90.0, 500.0, 490.0, 500.0],
    "below": [600.0, 499.0],
}
ORDER = ["late", "steep", "flat", "flat_too", "slow", "below"]


def course(values: list[float], steps: list[float] | None = None) -> Course:
    iterations = list(range(1, len(values) + 1))
    return Course(values, steps or [100.0 * i for i in iterations], iterations)


def order(mode: str, **curves: Course) -> list[str]:
    return best_first(
        list(curves), mode, last=lambda name: curves[name].last, course=lambda name: curves[name]
    )


def test_fewest_steps_to_the_value_then_the_mean_then_the_number() -> None:
    assert order("max", **{name: course(values) for name, values in CURVES.items()}) == ORDER
    down = {name: course([-v for v in values]) for name, values in CURVES.items()}
    assert order("min", **down) == ORDER


def test_the_value_is_the_last_one_and_counts_from_when_it_was_first_reached() -> None:
    # 600 was more than what it ended at: it had 500 by then. More training changes nothing.
    one = course([10.0, 600.0, 450.0, 500.0])
    assert one.reached(1) == 200.0 and one.reached(-1) == 100.0
    assert course([10.0, 500.0, 500.0, 500.0]).reached(1) == 200.0
    assert math.isnan(Course().reached(1)) and math.isnan(Course().last)


def test_iterations_stand_in_for_env_steps() -> None:
    early, tardy = course([1.0, 5.0], [NAN, NAN]), course([1.0, 2.0, 5.0], [NAN] * 3)
    assert (early.reached(1), tardy.reached(1)) == (2.0, 3.0)
    assert order("max", tardy=tardy, early=early) == ["early", "tardy"]


def test_those_without_a_finite_value_come_last() -> None:
    curves = {"none": Course(), "one": course([1.0]), "other": Course()}
    assert order("max", **curves) == order("min", **curves) == ["one", "none", "other"]


def test_a_result_replaces_those_of_a_run_that_was_cut_off() -> None:
    seen = Course()
    for iteration, value in ((1, 1.0), (2, 9.0), (3, NAN), (2, 3.0), (3, 5.0)):
        seen.note(row(iteration, value), METRIC)
    assert (len(seen), seen.mean, seen.reached(1)) == (3, 3.0, 300.0)
    # A clone of PBT goes on with its donor's counters: its iterations may grow, its steps not.
    seen.note({**row(4, 7.0), STEPS: 150}, METRIC)
    assert (len(seen), seen.last) == (2, 7.0)
    seen.note(row(5, True), METRIC)
    assert seen.last == 7.0  # no number


def test_configurations_of_several_runs() -> None:
    fast, slow = course([5.0, 9.0]), course([1.0, 1.0, 9.0])
    assert of_runs([fast, slow], "max") == (250.0, -(7.0 + 11 / 3) / 2)
    assert of_runs([fast], "max") < of_runs([slow], "max") < of_runs([], "max")


# ---------------------------------------------------------------------- everywhere the same


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """The trials of `CURVES`, made in that order, with a checkpoint each."""
    trials = {
        name: {
            "rows": [row(i, v, done=i == len(values)) for i, v in enumerate(values, start=1)],
            "tag": f"{number}_lr={number}",
            "config": {"lr": number},
            "searched": {"lr": number},
        }
        for number, (name, values) in enumerate(CURVES.items(), start=1)
    }
    folder = make_sweep(tmp_path, trials)
    (folder / "spec.yaml").write_text(yaml.safe_dump({"name": "sweep"}))
    for name, values in CURVES.items():
        add_checkpoint(folder, name, 1, iteration=len(values))
    return folder


def live_trials(sweep: Path) -> list[Any]:
    """What Tune holds of a sweep that was resumed: last results, and the place of the files."""
    found = []
    for number, name in enumerate(CURVES, start=1):
        folder = sweep / f"trial_{name}"
        last = json.loads((folder / "result.json").read_text().splitlines()[-1])
        found.append(
            SimpleNamespace(
                trial_id=name,
                status="TERMINATED",
                last_result=last,
                experiment_tag=f"{number}_lr={number}",
                storage=SimpleNamespace(trial_fs_path=str(folder)),
                evaluated_params={"lr": number},
                config={"lr": number},
                stopping_criterion={},
            )
        )
    return found


def test_every_place_names_the_same_trials_in_the_same_order(sweep: Path, tmp_path: Path) -> None:
    board = leaderboard(sweep)
    assert board["trial_id"].tolist() == ORDER
    assert board["reached"].tolist() == [100, 200, 200, 200, 500, 100]
    assert best_trial(sweep).trial_id == ORDER[0]
    assert best_checkpoint(sweep).trial.trial_id == ORDER[0]
    export_best(sweep, tmp_path / "best")
    told = json.loads((tmp_path / "best" / "policy.json").read_text())
    assert ORDER[0] in json.dumps(told) and ORDER[1] not in json.dumps(told)
    data = ReportData(sweep)
    assert [trial.trial_id for trial, _ in data.ranked] == ORDER
    text = " ".join(summary(data).sentences)
    assert "Trial late won with 500" in text
    assert "the same as 4 others. It is first because it reached that value after 100 steps" in text
    assert "the next one after 200" in text
    assert winner(sweep) == ORDER[0]
    note = sweep_note(load_sweep(sweep), METRIC, "max")
    assert f"of trial `{ORDER[0]}`" in note and note.index("`late`") < note.index("`steep`")
    live = LiveOrder(METRIC, "max")
    trials = live_trials(sweep)
    assert [trial.trial_id for trial in live.best_first(trials[::-1])] == ORDER


def test_the_live_table_and_its_lines_name_the_same_best(sweep: Path) -> None:
    trials = live_trials(sweep)
    with open(sweep / "screen.txt", "w+") as file:
        console = Console(file=file, force_terminal=False, width=140)
        progress = Progress(
            METRIC, "max", total_trials=6, name="s", console=console, interval_s=0.0
        )
        for trial in trials:  # the process began after all of them had reported
            progress.on_trial_complete(1, trials, trial)
        progress.on_experiment_end(trials)
        file.seek(0)
        lines = file.read().splitlines()
    [best] = [line for line in lines if "best so far" in line]
    assert "trial late finished" in best
    assert f"best {METRIC} 500 (late)" in lines[-1]


def test_what_is_known_so_far_decides_while_trials_run(sweep: Path) -> None:
    live, trials = LiveOrder(METRIC, "max"), live_trials(sweep)[:2]
    for trial in trials:
        trial.last_result = {}
    for iteration in range(1, 6):
        for trial in trials:
            values = CURVES[trial.trial_id]
            live.note(trial, row(iteration, values[iteration - 1]))
        leader = live.best(trials)
        assert leader is not None
        assert leader.trial_id == ("late" if iteration in (1, 5) else "slow"), iteration
    live.note(trials[1], row(6, NAN))  # a trial counts with its last finite value
    assert live.last(trials[1]) == 500.0


def test_a_resumed_sweep_knows_what_ended_before_it(sweep: Path) -> None:
    live, trials = LiveOrder(METRIC, "max"), live_trials(sweep)
    new = SimpleNamespace(
        trial_id="new", experiment_tag="7_lr=7", last_result={}, storage=trials[0].storage
    )
    best = live.best([*trials, new])
    assert best is not None and best.trial_id == "late"
    live.note(new, row(1, 499.5))
    assert live.best([*trials, new]) is best
    live.note(new, row(2, 500.5))
    assert live.best([*trials, new]) is new
    # One whose last value is no number: its file has the last that is.
    trials[0].last_result = {**trials[0].last_result, METRIC: NAN}
    assert live.last(trials[0]) == 500.0
