"""What trackers put into a trial's folder does not keep the sweep from being saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from experiments.durability import snapshot
from experiments.durability.snapshot import SnapshotSyncer


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    folder = tmp_path / "staging" / "0001_a"
    (folder / "wandb" / "run-1").mkdir(parents=True)
    (folder / "wandb" / "run-1" / "run.wandb").write_text("data")
    (folder / "result.json").write_text("{}\n")
    return folder


def save(tmp_path: Path) -> Path:
    (tmp_path / "sweep").mkdir()
    syncer = SnapshotSyncer(tmp_path / "staging")
    assert syncer.sync_up(str(tmp_path / "staging"), str(tmp_path / "sweep"))
    return tmp_path / "sweep" / "0001_a"


def test_links_and_pipes_are_left_out(tmp_path: Path, trial: Path) -> None:
    (trial / "wandb" / "latest-run").symlink_to("run-1", target_is_directory=True)
    (trial / "wandb" / "gone").symlink_to("nothing")
    (trial / "log").symlink_to("result.json")
    os.mkfifo(trial / "pipe")
    saved = save(tmp_path)
    assert (saved / "result.json").read_text() == "{}\n"
    assert (saved / "wandb" / "run-1" / "run.wandb").read_text() == "data"
    assert (saved / "log").read_text() == "{}\n"  # of a link to a file, the file
    assert {p.name for p in (saved / "wandb").iterdir()} == {"run-1"}
    assert not (saved / "pipe").exists()


def test_what_goes_away_meanwhile_is_left_out(
    tmp_path: Path, trial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trial / "temporary").write_text("x")
    copy = snapshot._copy

    def taken_away(source: Path, *args: Any) -> None:
        if source.name == "temporary":
            source.unlink()
        copy(source, *args)

    monkeypatch.setattr(snapshot, "_copy", taken_away)
    saved = save(tmp_path)
    assert (saved / "result.json").is_file() and not (saved / "temporary").exists()


def test_a_folder_that_goes_away_is_left_out(
    tmp_path: Path, trial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def taken_away(path: Any) -> Any:
        if str(path).rstrip("/").endswith("wandb"):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(snapshot.os, "scandir", taken_away)
    saved = save(tmp_path)
    assert (saved / "result.json").is_file() and not (saved / "wandb").exists()
