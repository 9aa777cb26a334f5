"""Stores that a spec names are looked at before they are written to: what is not ours stays."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import optuna
import pytest

from analysis import ResultsError
from analysis.results.mlflow import load_mlflow_sweep
from analysis.results.store_files import sqlite_file, why_not_mlflow
from experiments.errors import PreflightError
from experiments.running.runner import run_sweep
from experiments.running.warm_start import load_history
from experiments.search.build import study_copy
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.tracking.store import connect

FOREIGN = {
    "a letter": b"Dear Ada,\n",
    "a letter without an end": b"x",
    "JSON": b'{"a": 1}\n',
    "JSON lines": b'{"a": 1}\n{"a": 2}\n',
    "a list": b"[1]\n",
    "no text": bytes(range(256)),
    "deep JSON": b"[" * 100_000 + b"\n",
    "one long line": b"x" * 3_000_000,
}


def spec(tmp_path: Path, **keys: Any) -> Any:
    return make_spec(
        {
            "name": "sweep",
            "trainable": "sweep_dummy:Dummy",
            "storage": str(tmp_path / "runs"),
            "search_space": {"lr": {"uniform": [0.1, 1]}},
            "search": "tpe",
            **keys,
        }
    )


def with_study(tmp_path: Path, place: Path | str) -> Any:
    return spec(tmp_path, search={"algorithm": "tpe", "study_storage": str(place)})


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Somebody's SQLite database."""
    path = tmp_path / "letters.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE letters (text)")
        connection.execute("INSERT INTO letters VALUES ('Dear Ada')")
    return path


@pytest.mark.parametrize("kind", FOREIGN)
def test_no_line_goes_to_a_file_that_is_no_journal(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(FOREIGN[kind])
    with pytest.raises(PreflightError, match=r"study_storage: .*notes\.txt exists and is no journ"):
        study_copy(with_study(tmp_path, file))
    assert file.read_bytes() == FOREIGN[kind]
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_database_is_no_journal_and_a_folder_no_file(tmp_path: Path, database: Path) -> None:
    before = database.read_bytes()
    with pytest.raises(PreflightError, match=r"write sqlite:///.*letters\.db"):
        study_copy(with_study(tmp_path, database))
    assert database.read_bytes() == before
    with pytest.raises(PreflightError, match="is a folder"):
        study_copy(with_study(tmp_path, tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PreflightError, match="no regular file"):
        study_copy(with_study(tmp_path, tmp_path / "pipe"))


def test_optunas_tables_are_not_put_into_another_database(tmp_path: Path, database: Path) -> None:
    before = database.read_bytes()
    with pytest.raises(PreflightError, match="of something else than Optuna; it is left"):
        study_copy(with_study(tmp_path, f"sqlite:///{database}"))
    assert database.read_bytes() == before
    text = tmp_path / "text.db"
    text.write_bytes(FOREIGN["a letter"])
    with pytest.raises(PreflightError, match=r"text\.db is no SQLite database"):
        study_copy(with_study(tmp_path, f"sqlite:///{text}"))
    assert text.read_bytes() == FOREIGN["a letter"]


def test_an_empty_file_and_a_study_of_optunas_are_taken(tmp_path: Path) -> None:
    journal, empty = tmp_path / "study.log", tmp_path / "empty.log"
    for place in (str(journal), f"sqlite:///{tmp_path}/study.db"):
        storage: Any = place
        if place == str(journal):
            backend = optuna.storages.journal.JournalFileBackend(place)
            storage = optuna.storages.JournalStorage(backend)
        optuna.create_study(storage=storage, study_name="another")
    empty.touch()
    for place in (str(journal), str(empty), f"sqlite:///{tmp_path}/study.db"):
        copied = study_copy(with_study(tmp_path, place))
        assert copied is not None and copied.close() == 0


def test_mlflows_tables_are_not_put_into_another_database(tmp_path: Path, database: Path) -> None:
    before, uri = database.read_bytes(), f"sqlite:///{database}"
    with pytest.raises(PreflightError, match=r"letters\.db is a database of something else"):
        connect(uri)
    with pytest.raises(PreflightError, match="something else than MLflow; it is left as it is"):
        run_sweep(Sweep.of(spec(tmp_path, mlflow={"tracking_uri": uri})))
    with pytest.raises(ResultsError, match="something else than MLflow"):
        load_mlflow_sweep("tunescape/x", tracking_uri=uri)
    source = {"mlflow_experiment": "x", "tracking_uri": uri}
    learns = spec(tmp_path, search={"algorithm": "tpe", "warm_start": [source]})
    with pytest.raises(PreflightError, match=r"warm_start: .*something else than MLflow"):
        load_history(Sweep.of(learns))
    assert database.read_bytes() == before


def test_a_source_to_learn_from_is_not_made(tmp_path: Path) -> None:
    source = {"mlflow_experiment": "x", "tracking_uri": f"sqlite:///{tmp_path}/none.db"}
    learns = spec(tmp_path, search={"algorithm": "tpe", "warm_start": [source]})
    with pytest.raises(PreflightError, match=r"warm_start: .*there is no such database"):
        load_history(Sweep.of(learns))
    assert not (tmp_path / "none.db").exists()


def test_a_folder_of_something_else_is_no_tracking_store(tmp_path: Path) -> None:
    assert why_not_mlflow((tmp_path / "none").as_uri()) is None
    assert why_not_mlflow(tmp_path.as_uri()) is None  # it is empty
    (tmp_path / "thesis.tex").touch()
    assert "holds something else" in str(why_not_mlflow(tmp_path.as_uri()))
    assert "is a file" in str(why_not_mlflow((tmp_path / "thesis.tex").as_uri()))
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "meta.yaml").touch()
    assert why_not_mlflow(tmp_path.as_uri()) is None
    assert why_not_mlflow("http://localhost:5000") is None


def test_sqlite_uris() -> None:
    assert sqlite_file("sqlite:////a/b.db?timeout=5") == Path("/a/b.db")
    assert sqlite_file("sqlite+pysqlite:///b.db") == Path("b.db")
    assert sqlite_file("sqlite:///:memory:") is None and sqlite_file("http://a/b") is None
