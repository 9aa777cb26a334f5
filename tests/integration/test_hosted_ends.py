"""A sweep in hosts whose driver is killed or interrupted: nobody stays, and it goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from sweep_processes import ended, finish, rows, spec_file, start, wait_until

from experiments.benchmarks.scripted import SMALL
from experiments.trial_info import read_json_lines

pytestmark = pytest.mark.full(
    "integration/test_hosted_faults.py::test_trials_of_a_killed_host_go_on_in_another_one"
)
X = [0.1, 0.2, 0.3, 0.4, 0.5]


def hosted_spec(tmp_path: Path, seconds: float) -> str:
    return spec_file(
        tmp_path,
        trainable="experiments.benchmarks.scripted:Scripted",
        config={**SMALL, "seconds": seconds},
        search_space={"x": {"grid": X}},
        checkpoint={"frequency": 1},
        trial_batching="auto",
        mlflow={"enabled": False},
    )


def results(sweep: Path) -> dict[str, list[dict[str, Any]]]:
    return {path.parent.name: read_json_lines(path) for path in sweep.glob("*/result.json")}


def hosts(sweep: Path) -> set[int]:
    return {row["pid"] for own in results(sweep).values() for row in own}


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if _state(pid) not in (None, "Z")}


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def assert_whole(sweep: Path) -> None:
    """Each trial has every iteration, and its result is the one it has without a cut."""
    found = results(sweep)
    assert len(found) == len(X)
    assert {its[-1] for its in rows(sweep).values()} == {8}
    for own in found.values():
        assert {row["training_iteration"] for row in own} == set(range(1, 9))
    best = sorted(own[-1]["episode_return_mean"] for own in found.values())
    assert [round(value, 6) for value in best] == [round(8 * x, 6) for x in X]


def test_no_process_outlives_a_killed_driver_and_the_sweep_goes_on(tmp_path: Path) -> None:
    sweep = tmp_path / "runs" / "sweep"
    process = start(tmp_path, "run", hosted_spec(tmp_path, seconds=0.3))
    wait_until(
        lambda: len(hosts(sweep)) == 2 and any(3 in its for its in rows(sweep).values()), process
    )
    before = hosts(sweep)
    assert alive(before) == before
    os.kill(process.pid, signal.SIGKILL)  # the driver alone, not its group
    process.communicate()
    until = time.monotonic() + 30
    while alive(before) and time.monotonic() < until:
        time.sleep(0.1)
    assert not alive(before)
    reached = {name: own[-1] for name, own in rows(sweep).items()}
    finish(tmp_path, "runs/sweep")
    assert_whole(sweep)
    for name, own in results(sweep).items():
        again = [row["training_iteration"] for row in own if row["pid"] not in before]
        assert not again or again[0] >= reached[name]


def test_ctrl_c_ends_it_quickly_and_it_goes_on(tmp_path: Path) -> None:
    sweep = tmp_path / "runs" / "sweep"
    process = start(tmp_path, "run", hosted_spec(tmp_path, seconds=0.1))
    wait_until(lambda: any(3 in its for its in rows(sweep).values()), process)
    at = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    took = time.monotonic() - at
    assert process.returncode == 130, output
    assert output.index("Ctrl-C: no trial goes on") < output.index("The trials have ended.")
    assert f"0 pruned, 0 failed, {len(X) - len(ended(sweep))} interrupted" in output
    assert "Traceback" not in output and "Error" not in output
    assert not alive(hosts(sweep))
    finish(tmp_path, "runs/sweep")
    assert_whole(sweep)
    assert took < 30  # 3 s on an idle machine
