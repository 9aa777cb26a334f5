"""A matrix is run by one process at a time, and a resume leaves its specs as they were."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from experiments.errors import PreflightError, SweepError
from experiments.running import matrix as matrix_runner
from experiments.running.matrix_state import MATRIX_FILE, Matrix, Row, load_matrix, save_matrix
from experiments.running.runner import run_sweep
from experiments.running.sweep_lock import sweep_lock
from experiments.spec.paths import LOCK_FILE, sweep_dir
from experiments.sweep.load import load_specs
from experiments.sweep.sweep import Sweep

TEXT = """\
name: study
trainable: sweep_dummy:Dummy
stop: {num_env_steps_sampled_lifetime: 1000}
matrix: {config.lr: [0.1, 0.2]}
"""


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    (tmp_path / "study.yaml").write_text(TEXT)
    specs = load_specs(tmp_path / "study.yaml", [f"storage={tmp_path / 'runs'}"])
    named = {spec.name.rpartition("/")[2]: spec for spec in specs}
    return Matrix(sweep_dir(specs[0]).parent, named, {name: Row() for name in named})


def test_a_running_matrix_is_neither_resumed_nor_begun_again(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_runner, "ray_session", lambda *_, **__: pytest.fail("it was run"))
    matrix.folder.mkdir(parents=True)
    begun = matrix.folder / next(iter(matrix.specs)) / "begun"  # a sweep without a result yet
    begun.mkdir(parents=True)
    save_matrix(matrix)
    with sweep_lock(matrix.folder), pytest.raises(SweepError, match="running in process"):
        matrix_runner.resume_matrix(matrix.folder)
    assert begun.is_dir()

    # It begins while the other's checks are running.
    monkeypatch.setattr(matrix_runner, "check_storage", lambda *_: None)
    with sweep_lock(matrix.folder), pytest.raises(SweepError, match="running in process"):
        matrix_runner.run_matrix([Sweep.of(spec) for spec in matrix.specs.values()])


def test_a_matrix_begun_and_ended_meanwhile_is_not_overwritten(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = matrix_runner.check_storage

    def check_then_lose_the_race(storage: Path, folder: Path) -> None:
        check(storage, folder)
        folder.mkdir(exist_ok=True)
        (folder / MATRIX_FILE).write_text("of the other")

    monkeypatch.setattr(matrix_runner, "check_storage", check_then_lose_the_race)
    with pytest.raises(PreflightError, match="exists already"):
        matrix_runner.run_matrix([Sweep.of(spec) for spec in matrix.specs.values()])
    assert (matrix.folder / MATRIX_FILE).read_text() == "of the other"


def test_a_sweep_that_runs_by_itself_keeps_its_folder(matrix: Matrix) -> None:
    spec = next(iter(matrix.specs.values()))
    with sweep_lock(sweep_dir(spec)), pytest.raises(SweepError, match="running in process"):
        run_sweep(Sweep.of(spec))
    assert (sweep_dir(spec) / LOCK_FILE).is_file()


def test_an_address_is_of_one_resume_alone(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = []

    def session(resources: Any, **_: Any) -> Any:
        joined.append(resources.address)
        return nullcontext()

    def fail(*_: Any, **__: Any) -> None:
        raise SweepError("no luck")

    monkeypatch.setattr(matrix_runner, "ray_session", session)
    monkeypatch.setattr(matrix_runner, "run_sweep", fail)
    matrix.folder.mkdir(parents=True)
    save_matrix(matrix)
    matrix_runner.resume_matrix(matrix.folder, address="cluster:6379")
    after = load_matrix(matrix.folder)
    assert joined == ["cluster:6379"]
    assert {row.note for row in after.rows.values()} == {"no luck"}
    assert {spec.resources.address for spec in after.specs.values()} == {None}
