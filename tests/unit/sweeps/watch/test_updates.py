"""What a page is told at first, and what of each change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import row
from watched_folders import Folder

from experiments.watch.updates import Updates
from experiments.watch.watched_sweep import WatchedSweep


class Page:
    """Puts messages together as page.js does."""

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.order: list[str] = []
        self.trials: dict[str, Any] = {}
        self.curves: dict[str, Any] = {}

    def take(self, message: dict[str, Any]) -> None:
        message = json.loads(json.dumps(message, allow_nan=False))
        self.head = message.get("head", self.head)
        self.order = message.get("order", self.order)
        self.trials.update(message.get("trials", {}))
        for known in (self.trials, self.curves):
            for key in [*known]:
                if key not in self.order:
                    del known[key]
        for key, more in message.get("curves", {}).items():
            old = self.curves.get(key, {"steps": [], "seconds": [], "values": []})
            start = more["from"]
            empty: list[list[float]] = [[] for _ in more["values"]]
            before = old["values"] if start else empty
            self.curves[key] = {
                "steps": old["steps"][:start] + more["steps"],
                "seconds": old["seconds"][:start] + more["seconds"],
                "values": [b[:start] + m for b, m in zip(before, more["values"], strict=True)],
            }


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "sweep")
    folder.add("a", rows=[row(1, 1.0)], config={"lr": 0.25, "model": {"act": "<b>tanh</b>"}})
    folder.add("b", rows=[row(1, 2.0)], config={"lr": 0.5, "model": {"act": "relu"}})
    return folder


@pytest.fixture
def sweep(folder: Folder) -> WatchedSweep:
    return WatchedSweep(folder.path)


def test_changes_lead_to_the_whole(folder: Folder, sweep: WatchedSweep) -> None:
    updates, page = Updates(sweep), Page()

    def look() -> dict[str, Any]:
        sweep.look()
        message = updates.changes()
        page.take(message)
        late = Page()
        late.take(updates.whole())
        assert vars(late) == vars(page)
        return message

    with folder.running():
        assert look().keys() == {"head", "order", "trials", "curves"}
        assert page.order == ["b", "a"] and page.curves["a"]["values"] == [[1.0]]
        assert look().keys() <= {"head"}  # a second may have gone by
        folder.report("a", 2, 3.0)
        message = look()
        assert message["curves"] == {
            "a": {"from": 1, "steps": [200], "seconds": [1.0], "values": [[3.0]]}
        }
        assert [*message["trials"]] == ["a"] and message["order"] == ["a", "b"]
        folder.report("a", 2, 1.5)  # it went on from a checkpoint
        assert look()["curves"]["a"]["from"] == 0
        assert page.curves["a"]["values"] == [[1.0, 1.5]] and page.order == ["b", "a"]
        folder.add("c", rows=[], config={"lr": 0.75, "model": {"act": "relu"}})
        look()
        assert page.order == ["b", "a", "c"] and page.curves["c"]["values"] == []
        folder.report("c", 1, float("inf"))
        look()
        assert page.curves["c"]["values"] == [[None]]


def test_the_table(folder: Folder, sweep: WatchedSweep) -> None:
    folder.report("a", 2, None, done=True)
    folder.killed()
    sweep.look()
    updates = Updates(sweep)
    updates.changes()
    told = updates.whole()
    assert told["head"]["columns"] == [
        *("Trial", "Status", "episode_return_mean", "lr", "model/act"),
        *("Environment steps", "Iteration", "Time"),
    ]
    assert told["head"]["numeric"] == [False, False, True, True, False, True, True, True]
    assert told["trials"] == {
        "b": {
            "status": "interrupted",
            "cause": "",
            "cells": ["2", "0.5", "relu", "100", "1", "0:00"],
        },
        "a": {
            "status": "finished",
            "cause": "",
            "cells": ["–", "0.25", "<b>tanh</b>", "200", "2", "0:01"],
        },
    }


def test_several_objectives_and_one_of_ones_own(folder: Folder) -> None:
    spec = "objectives: [{metric: score, mode: min}, {metric: time_total_s, mode: min}]\n"
    (folder.path / "spec.yaml").write_text(spec)
    folder.report("a", 2, 1.0, score=5.0)
    for metric, labels in ((None, ["score", "training time (s)"]), ("score", ["score"])):
        sweep = WatchedSweep(folder.path, metric)
        sweep.look()
        updates = Updates(sweep)
        told = updates.changes()
        assert [figure["label"] for figure in told["head"]["figures"]] == labels
        assert len(told["curves"]["a"]["values"]) == len(labels)
        assert told["curves"]["a"]["values"][0] == [None, 5.0]


def test_settings_may_hold_anything(folder: Folder, sweep: WatchedSweep) -> None:
    config = {"lr": 10**400, "hiddens": [64, 64], "text": "x" * 999, "flag": True, "none": None}
    folder.add("c", rows=[row(1, 0.0)], config=config)
    sweep.look()
    cells = Updates(sweep).changes()["trials"]["c"]["cells"]
    assert f"1{'0' * 199}…" in cells and "[64, 64]" in cells and f"{'x' * 200}…" in cells
    assert "true" in cells and "null" in cells
