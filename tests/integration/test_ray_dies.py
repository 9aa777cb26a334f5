"""The Ray that a sweep started dies: the sweep ends, says why, and a resume goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from sweep_processes import finish, rows, spec_file, start, statuses, wait_until


def child_of(driver: subprocess.Popen[str], name: str) -> int:
    """The process of Ray that a driver started, by its command's name."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(driver.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.split() for line in listed.stdout.splitlines()]
    return next(int(pid) for pid, command, *_ in found if command == name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_sweep_whose_ray_dies_ends_and_goes_on(tmp_path: Path, name: str) -> None:
    process, sweep = start(tmp_path, "run", spec_file(tmp_path)), tmp_path / "runs" / "sweep"
    wait_until(lambda: any(8 in its for its in rows(sweep).values()), process)
    before, killed = rows(sweep), time.monotonic()
    os.kill(child_of(process, name), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert time.monotonic() - killed < 30
    assert process.returncode == 3, output
    assert "Ray has died (its " in output and "`tunescape resume runs/sweep`" in output
    assert "Traceback" not in output
    assert "RUNNING" not in statuses(sweep.parent)
    finish(tmp_path, "runs/sweep")  # without --retry-errored: no trial failed
    after = rows(sweep)
    finished = [trial for trial, its in before.items() if max(its) == 8]
    assert finished and all(after[trial] == before[trial] for trial in finished)
    assert list(after.values()) == [list(range(1, 9))] * 3
    assert statuses(sweep.parent) == ["FINISHED"] * 4
