"""Where a sweep of the same name lies: one without a result makes room, others are in the way."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from experiments.errors import PreflightError, SweepError
from experiments.running.making_room import make_room
from experiments.running.sweep_lock import sweep_lock
from experiments.sweep.load import load_specs
from experiments.sweep.used_folder import check_document_folder


def begun(folder: Path, result: str | None = None) -> Path:
    """Return the folder of a sweep whose one trial has failed, perhaps after a result."""
    trial = folder / "0001_abc"
    trial.mkdir(parents=True)
    for name in ("spec.yaml", "tuner.pkl", "0001_abc/params.json"):
        (folder / name).write_text("before")
    (trial / "result.json").write_text(result or "")
    return folder


def made(folder: Path, *, overwrite: bool = False) -> str:
    told = io.StringIO()
    make_room(folder, Console(file=told, width=300), overwrite=overwrite)
    return told.getvalue()


def test_a_sweep_without_a_result_is_moved_aside(tmp_path: Path) -> None:
    for number in (1, 2):
        told = made(begun(tmp_path / "mine"))
        aside = tmp_path / f"mine.old-{number}"
        assert told == f"{tmp_path}/mine: a sweep without a result; it is now {aside}\n"
        assert not (tmp_path / "mine").exists() and (aside / "tuner.pkl").read_text() == "before"
    assert made(tmp_path / "mine") == ""


def test_results_are_deleted_only_when_that_is_asked_for(tmp_path: Path) -> None:
    folder = begun(tmp_path / "mine", "{}")
    with pytest.raises(PreflightError, match=r"mine exists already: .*--name.*--overwrite"):
        make_room(folder, Console())
    assert made(folder, overwrite=True) == f"{folder} was deleted (--overwrite)\n"
    assert not list(tmp_path.iterdir())


def test_what_is_no_sweep_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("spec.yaml", "thesis.tex"):
        (tmp_path / "mine" / name).write_text("a year of work")
    for overwrite in (False, True):
        with pytest.raises(PreflightError, match=r"mine exists already: .*--name$"):
            make_room(tmp_path / "mine", Console(), overwrite=overwrite)
    assert len(list((tmp_path / "mine").iterdir())) == 2


def test_a_running_sweep_stays(tmp_path: Path) -> None:
    folder = begun(tmp_path / "mine")
    with sweep_lock(folder), pytest.raises(SweepError, match="the sweep is running in process"):
        make_room(folder, Console())
    assert (folder / "tuner.pkl").exists()


def test_it_is_told_before_the_environment_is_tried(tmp_path: Path) -> None:
    begun(tmp_path / "runs" / "mine", "{}")
    file = tmp_path / "mine.yaml"
    file.write_text("config: {env: none.such:Env}\nsearch_space: {nonsense: {grid: [1]}}\n")
    with pytest.raises(PreflightError, match="mine exists already"):
        load_specs(file, [f"storage={tmp_path / 'runs'}"], first=check_document_folder)
    file.write_text("name: other\ntrainable: sweep_dummy:Dummy\n")
    first = partial(check_document_folder, overwrite=True)
    for name in ("mine", "other"):
        assert load_specs(file, [f"storage={tmp_path / 'runs'}", f"name={name}"], first=first)
