"""The Ray that a sweep started dies: the sweep ends, says why, and a resume goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from forked_drivers import Driver
from sweep_processes import (
    FIVE,
    finish,
    rows,
    spec_file,
    start,
    statuses,
    statuses_by_folder,
    wait_for_trials,
)


def child_of(driver: Driver, name: str) -> int:
    """The process of Ray that a driver started, by its command's name."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(driver.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.split() for line in listed.stdout.splitlines()]
    return next(int(pid) for pid, command, *_ in found if command == name)


DEATHS = [("gcs_server", 1), ("raylet", 3)]  # which process dies after how many trials


@pytest.mark.full(
    "unit/sweeps/cluster/test_ray_watch.py::test_who_is_stuck_in_a_call_of_ray_is_not_waited_for"
)
def test_a_sweep_whose_ray_dies_ends_and_goes_on(tmp_path: Path) -> None:
    command, sweep = ("run", spec_file(tmp_path, **FIVE)), tmp_path / "runs" / "sweep"
    finished: dict[str, list[int]] = {}
    for name, num_finished in DEATHS:
        process = start(tmp_path, *command)
        wait_for_trials(num_finished, sweep, process)
        before, killed = rows(sweep), time.monotonic()
        os.kill(child_of(process, name), signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
        assert time.monotonic() - killed < 60
        assert process.returncode == 3, output
        assert "Ray has died (its " in output and "`tunescape resume runs/sweep`" in output
        assert "Traceback" not in output
        assert "RUNNING" not in statuses(sweep.parent)
        finished |= {trial: its for trial, its in before.items() if max(its) == 8}
        command = ("resume", "runs/sweep")  # without --retry-errored: no trial failed
    finish(tmp_path, "runs/sweep")
    after = rows(sweep)
    assert len(finished) >= DEATHS[-1][1]
    assert all(after[trial] == its for trial, its in finished.items())
    assert list(after.values()) == [list(range(1, 9))] * 5
    of_trials = statuses_by_folder(sweep.parent)
    assert {trial: of_trials.pop(trial) for trial in after} == {key: ["FINISHED"] for key in after}
    # A trial that starts in the moment before Ray dies has its run in MLflow before the sweep is
    # next saved, 0.1 s later. Nobody knows it then: the resume makes another, and ends that run.
    assert all(found == ["KILLED"] for found in of_trials.values())
