"""A sweep in hosts whose driver is killed: nobody stays, and it goes on."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sweep_processes import finish, rows, spec_file, start, wait_until

from experiments.benchmarks.scripted import SMALL
from experiments.trial_info import read_json_lines

X = [0.1, 0.2, 0.3, 0.4, 0.5]


def alive(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids:
        with suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                found.add(pid)
    return found


@pytest.mark.full("integration/test_hosted_sweeps.py::test_trials_of_hosts_are_those_of_processes")
def test_no_process_outlives_a_killed_driver_and_the_sweep_goes_on(tmp_path: Path) -> None:
    sweep = tmp_path / "runs" / "sweep"
    spec = spec_file(
        tmp_path,
        trainable="experiments.benchmarks.scripted:Scripted",
        config={**SMALL, "seconds": 0.3},
        search_space={"x": {"grid": X}},
        checkpoint={"frequency": 1},
        trial_batching="auto",
        mlflow={"enabled": False},
    )

    def results() -> dict[str, list[dict[str, Any]]]:
        return {path.parent.name: read_json_lines(path) for path in sweep.glob("*/result.json")}

    def hosts() -> set[int]:
        return {row["pid"] for own in results().values() for row in own}

    process = start(tmp_path, "run", spec)
    wait_until(lambda: len(hosts()) == 2 and any(3 in its for its in rows(sweep).values()), process)
    before = hosts()
    assert alive(before) == before
    os.kill(process.pid, signal.SIGKILL)  # the driver alone, not its group
    process.communicate()
    until = time.monotonic() + 30
    while alive(before) and time.monotonic() < until:
        time.sleep(0.1)
    assert not alive(before)
    reached = {name: own[-1] for name, own in rows(sweep).items()}
    finish(tmp_path, "runs/sweep")
    # Each trial has every iteration, and its result is the one it has without a cut.
    assert {its[-1] for its in rows(sweep).values()} == {8}
    for name, own in results().items():
        assert {row["training_iteration"] for row in own} == set(range(1, 9))
        again = [row["training_iteration"] for row in own if row["pid"] not in before]
        assert not again or again[0] >= reached[name]
    best = sorted(own[-1]["episode_return_mean"] for own in results().values())
    assert best == pytest.approx([8 * x for x in X])
