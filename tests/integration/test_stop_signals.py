"""SIGTERM and SIGHUP end a sweep as Ctrl-C does; it goes on as if nothing had happened."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from cheap_sweeps import drawn
from forked_drivers import Driver, completed
from sweep_processes import (
    FIVE,
    ended,
    finish,
    rows,
    spec_file,
    start,
    statuses,
    wait_for_trials,
    wait_until,
)

LATER = pytest.mark.full("test_ctrl_c_tells_what_is_saved")


def stopped(process: Driver, how: signal.Signals) -> str:
    """Send a signal; what the process said, having ended with the signal's status."""
    process.send_signal(how)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + how, output
    assert "Traceback" not in output and "*** SIG" not in output and "core_worker" not in output
    return output


@LATER
def test_a_stopped_sweep_is_saved_and_goes_on(tmp_path: Path) -> None:
    command, sweep = ("run", spec_file(tmp_path, **FIVE)), tmp_path / "runs" / "sweep"
    finished: dict[str, list[int]] = {}
    for how, num_finished in ((signal.SIGTERM, 1), (signal.SIGHUP, 3)):
        process = start(tmp_path, *command)
        wait_for_trials(num_finished, sweep, process)
        output = stopped(process, how)
        assert f"Interrupted by {how.name}: " in output
        assert "`tunescape resume runs/sweep`" in output
        assert "a second signal ends at once" in output
        finished |= ended(sweep)
        parent, *children = statuses(sweep.parent)
        assert parent == "KILLED" and set(children) <= {"FINISHED", "KILLED"}
        command = ("resume", "runs/sweep")

    # As systemd and Slurm do: Ray's processes have gone before the sweep is saved.
    before = rows(sweep)
    process = start(tmp_path, *command)

    def all_are_on_their_way() -> bool:
        now = rows(sweep)
        return now != before and len(now) == 5 and all(2 in its for its in now.values())

    wait_until(all_are_on_their_way, process)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 143, output
    assert "`tunescape resume runs/sweep`" in output
    assert "RUNNING" not in statuses(sweep.parent)

    finish(tmp_path, "runs/sweep")
    after = rows(sweep)
    assert len(finished) >= 3 and all(after[name] == its for name, its in finished.items())
    assert len(after) == 5 and all(its == list(range(1, 9)) for its in after.values())
    assert statuses(sweep.parent) == ["FINISHED"] * 6


def pressed(process: Driver) -> str:
    """Press Ctrl-C; the first line that says what happens now, and all before it."""
    process.send_signal(signal.SIGINT)
    said = []
    while not said or "Ctrl-C" not in said[-1]:
        line = process.stdout.readline()
        assert line, "".join(said)
        said.append(line)
    return "".join(said)


@LATER
def test_ctrl_c_before_the_first_result_says_how_it_goes_on(tmp_path: Path) -> None:
    sweep = tmp_path / "runs" / "sweep"
    process = start(tmp_path, "run", spec_file(tmp_path, config={"seconds": 60.0}))
    wait_until(lambda: any(sweep.glob("*/params.json")), process)
    output = pressed(process)
    assert "Saving the sweep's state" in output and "runs/sweep" in output
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130, rest
    assert "no trial has reported a result yet" in rest and "Error" not in rest
    assert "tunescape resume runs/sweep" in rest
    assert "0 pruned, 0 failed" in rest


def test_ctrl_c_tells_what_is_saved(tmp_path: Path) -> None:
    spec = spec_file(tmp_path, config={"seconds": 0.25})
    with drawn():
        process, sweep = Driver("run", spec, cwd=tmp_path), tmp_path / "runs" / "sweep"
    wait_until(lambda: any(3 in its for its in rows(sweep).values()), process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert output.index("Ctrl-C: all trials stop") < output.index("The trials have ended.")
    assert re.search("0 pruned, 0 failed, [12] interrupted", output)
    report = (sweep / "report.html").read_text()
    assert "running or interrupted" in report and "stopped early" not in report


@LATER
def test_the_second_ctrl_c_tells_what_is_not_saved(tmp_path: Path) -> None:
    spec = spec_file(tmp_path, config={"seconds": 0.25})
    process, sweep = Driver("run", spec, cwd=tmp_path), tmp_path / "runs" / "sweep"
    wait_until(lambda: any(3 in its for its in rows(sweep).values()), process)
    pressed(process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "Ctrl-C: ending at once. Not saved: " in output
    assert "`tunescape resume runs/sweep` continues from the saved state." in output
    assert "Traceback" not in output and "Error" not in output
    done = completed("resume", "runs/sweep", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(rows(sweep).values()) == [list(range(1, 9))] * 3


@LATER
def test_a_sweep_stopped_before_its_first_result_goes_on(tmp_path: Path) -> None:
    """First while Ray starts, then before a trial has reported: whatever is there is continued."""
    sweep = tmp_path / "runs" / "sweep"
    process = start(tmp_path, "run", spec_file(tmp_path, config={"seconds": 5.0}))
    wait_until(lambda: (sweep / "spec.yaml").exists(), process)
    output = stopped(process, signal.SIGTERM)
    assert "Interrupted by SIGTERM" in output
    before = set(sweep.glob("experiment_state-*.json"))  # Ray may have started by then
    process = start(tmp_path, "resume", "runs/sweep")
    wait_until(lambda: set(sweep.glob("experiment_state-*.json")) - before, process)
    assert "`tunescape resume runs/sweep`" in stopped(process, signal.SIGTERM)
    assert not any(rows(sweep).values())  # a trial may have started
    assert "RUNNING" not in statuses(sweep.parent)
    process = start(tmp_path, "resume", "runs/sweep", "--stop", "training_iteration=9")
    wait_until(lambda: any(rows(sweep).values()), process)
    stopped(process, signal.SIGTERM)


@LATER
def test_a_stopped_matrix_and_its_final_go_on(tmp_path: Path) -> None:
    spec = spec_file(
        tmp_path,
        search_space={"lr": {"uniform": [0.01, 0.1]}},
        num_samples=1,
        stop={"training_iteration": 4},
        matrix={"config.gamma": [0.9, 0.99]},
        final={"top": 1, "seeds": 2},
        config={"seconds": 0.3},
    )
    runs = tmp_path / "runs"
    process = start(tmp_path, "run", spec, "--name", "matrix")
    wait_until(lambda: list(runs.glob("matrix/*/final/*/result.json")), process)
    output = stopped(process, signal.SIGTERM)
    assert output.count("`tunescape resume") == 1 and "`tunescape resume runs/matrix`" in output
    assert "RUNNING" not in statuses(runs)
    finish(tmp_path, "runs/matrix")
    assert set(statuses(runs)) == {"FINISHED"}
    assert len(list(runs.glob("matrix/*/best/policy.json"))) == 2
