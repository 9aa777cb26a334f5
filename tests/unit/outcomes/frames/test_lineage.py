"""Who went on from whom, and which settings a trial's final weights were trained with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.overview.lineage import ancestry, read_lineage, schedule, schedule_frame, winner
from analysis.plots.lineage import plot_lineage
from analysis.results.rows import ResultsError


def line(number: int, trial: str, donor: str, at: float, lr: float, donor_lr: float) -> str:
    data: dict[str, Any] = {
        "exploit": number, "time": 0.0, "time_attr": "steps", "trial": trial, "donor": donor,
        "budget": at, "donor_budget": at, "score": 1.0, "donor_score": 2.0,
        "before": {"lr": 9.0}, "donor_settings": {"lr": donor_lr}, "after": {"lr": lr},
    }  # fmt: skip
    return json.dumps(data) + "\n"


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """a stays itself; b goes on from a at 100, c from b at 200, b again from c at 300."""
    text = line(1, "b", "a", 100, 0.2, 0.1) + line(2, "c", "b", 200, 0.3, 0.2)
    text += line(3, "a", "d", 250, 7.0, 6.0) + line(4, "b", "c", 300, 0.4, 0.3)
    (tmp_path / "lineage.jsonl").write_text(text)
    for trial, score in (("a", 1.0), ("b", 5.0), ("c", float("nan"))):
        folder = tmp_path / f"0001_{trial}"
        folder.mkdir()
        rows = [
            {"training_iteration": i, "steps": 100 * i, "return": score + (9 if i == 1 else 0),
             "config": {"lr": 1.0}, "trial_id": trial}
            for i in (1, 2, 3)
        ]  # fmt: skip
        (folder / "result.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (folder / "params.json").write_text("{}")
    return tmp_path


def test_ancestry_and_schedule(sweep: Path) -> None:
    exploits = read_lineage(sweep)
    assert [e.number for e in ancestry(exploits, "b")] == [1, 2, 4]
    assert schedule(exploits, "b") == [
        (0, {"lr": 0.1}), (100, {"lr": 0.2}), (200, {"lr": 0.3}), (300, {"lr": 0.4}),
    ]  # fmt: skip
    assert schedule(exploits, "c") == [(0, {"lr": 0.1}), (100, {"lr": 0.2}), (200, {"lr": 0.3})]
    # What a did before it took d's place is not its schedule.
    assert schedule(exploits, "a") == [(0, {"lr": 6.0}), (250, {"lr": 7.0})]
    with pytest.raises(ResultsError, match="never changed"):
        schedule(exploits, "d")
    frame = schedule_frame(sweep, "c")
    assert frame.to_dict("list") == {"steps": [0, 100, 200], "lr": [0.1, 0.2, 0.3]}


def test_a_donor_that_has_not_trained_since_its_own_exploit(tmp_path: Path) -> None:
    text = line(1, "b", "a", 100, 0.2, 0.1) + line(2, "c", "b", 100, 0.3, 0.2)
    (tmp_path / "lineage.jsonl").write_text(text)
    assert schedule(read_lineage(tmp_path), "c") == [(0, {"lr": 0.1}), (100, {"lr": 0.3})]


def test_the_winner_is_the_best_at_the_end(sweep: Path) -> None:
    assert winner(sweep, "return") == "b"
    assert winner(sweep, "return", "min") == "a"


def test_no_lineage_and_a_damaged_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no lineage.jsonl.*pbt or pb2"):
        read_lineage(tmp_path)
    (tmp_path / "lineage.jsonl").write_text('{"exploit": 1}\n')
    with pytest.raises(ResultsError, match=r"lineage.jsonl cannot be read.*trial"):
        read_lineage(tmp_path)


def test_the_picture_is_drawn(sweep: Path) -> None:
    picture = plot_lineage(sweep, "return", out=sweep / "lineage.png")
    assert picture.read_bytes()[:4] == b"\x89PNG" and picture.stat().st_size > 10_000
