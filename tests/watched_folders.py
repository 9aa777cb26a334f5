"""Sweep folders as they look while a sweep runs: what tests of the live page read."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from analysis_sweeps import add_trial, row

from experiments.running.sweep_lock import sweep_lock

SPEC = {
    "name": "sweep",
    "trainable": "sweep_dummy:Dummy",
    "search_space": {"lr": {"uniform": [0.0, 1.0]}},
    "num_samples": 3,
}


class Folder:
    """A sweep's folder, to which trials and results are added."""

    def __init__(self, path: Path, **spec: Any) -> None:
        self.path = path
        self.states: dict[str, dict[str, Any]] = {}
        path.mkdir()
        (path / "spec.yaml").write_text(yaml.safe_dump({**SPEC, **spec}))

    def add(self, name: str, status: str = "RUNNING", **trial: Any) -> None:
        """Add a trial; `analysis_sweeps.add_trial` tells what it may say."""
        given = {"tag": f"{len(self.states) + 1}_x", "searched": {"lr": 1}, **trial}
        self.states[name] = add_trial(self.path, name, {"status": status, **given})
        self.save()

    def report(self, name: str, iteration: int, value: float | None, **more: Any) -> None:
        """Add a result to a trial's file."""
        config = more.pop("config", self.states[name]["config"])
        line = row(iteration, value, trial_id=name, config=config, **more)
        with (self.path / f"trial_{name}" / "result.json").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def end(self, name: str, status: str, last: dict[str, Any] | None = None) -> None:
        """Have Tune's snapshot say how a trial ended."""
        self.states[name] |= {"status": status, "last": last or {}}
        self.save()

    def save(self) -> None:
        """Write Tune's snapshot; each is a file of its own, as after a resume."""
        number = len(list(self.path.glob("experiment_state-*")))
        states = self.states.values()
        data = [[json.dumps(s), json.dumps({"last_result": s.get("last")})] for s in states]
        snapshot = self.path / f"experiment_state-2026-01-01_00-{number:02d}-00.json"
        snapshot.write_text(json.dumps({"trial_data": data}))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the lock, as a driver does."""
        with sweep_lock(self.path):
            yield

    def killed(self) -> None:
        """Leave the lock's file of a driver that is no more."""
        dead = os.posix_spawn("/bin/true", ["true"], {})
        os.waitpid(dead, 0)
        holder = {"pid": dead, "host": socket.gethostname()}
        (self.path / ".driver").write_text(json.dumps(holder))
