"""One driver at a time, and no lock that outlives its process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from experiments.errors import PreflightError, SweepError
from experiments.running.sweep_lock import sweep_lock
from experiments.spec.paths import LOCK_FILE
from experiments.sweep.preflight import check_storage


def test_a_second_holder_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    with sweep_lock(folder):
        with (
            pytest.raises(SweepError, match=f"running in process {os.getpid()} on"),
            sweep_lock(folder),
        ):
            raise AssertionError("never here")
        # The one that was refused must not have changed what the holder wrote.
        with pytest.raises(SweepError, match=f"process {os.getpid()}"), sweep_lock(folder):
            raise AssertionError("never here")
    with sweep_lock(folder):
        pass


def test_what_a_dead_driver_left_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / LOCK_FILE).write_text('{"pid": 1, "host": "elsewhere"}')
    with sweep_lock(folder):
        pass
    (folder / LOCK_FILE).write_text("torn")
    with sweep_lock(folder):
        pass


def test_a_lock_alone_makes_no_sweep(tmp_path: Path) -> None:
    with sweep_lock(tmp_path / "sweep"):
        pass
    check_storage(tmp_path, tmp_path / "sweep")
    (tmp_path / "sweep" / "spec.yaml").touch()
    with pytest.raises(PreflightError, match="exists already"):
        check_storage(tmp_path, tmp_path / "sweep")
