"""The study's copy in a storage: complete, never doubled, and no danger to the sweep."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import optuna
import pytest

from experiments.errors import PreflightError
from experiments.search import study_storage
from experiments.search.build import study_copy
from experiments.search.optuna_search import OptunaSearch
from experiments.search.study_storage import StudyCopy
from experiments.sweep.load import dump_spec, load_spec, make_spec, spec_space
from search_spaces import SpecError

RETURN = "episode_return_mean"


def spec(uri: str, **keys: Any) -> Any:
    return make_spec(
        {
            "name": "sweep",
            "trainable": "sweep_dummy:Dummy",
            "search_space": {"lr": {"uniform": [0.1, 1]}},
            "search": {"algorithm": "tpe", "n_startup_trials": 2, "study_storage": uri},
            "num_samples": 3,
            **keys,
        }
    )


def searcher(sweep: Any, study: StudyCopy | None) -> OptunaSearch:
    sampler = optuna.samplers.TPESampler(seed=1, n_startup_trials=2)
    search = OptunaSearch(spec_space(sweep), metric=RETURN, mode="max", sampler=sampler)
    search.copy = study
    return search


def step(search: OptunaSearch, trial: str, value: float, steps: int) -> dict[str, Any]:
    result = {RETURN: value, "num_env_steps_sampled_lifetime": steps, "pruned": False}
    search.on_trial_result(trial, result)
    return result


def summary(study: optuna.Study) -> list[tuple[Any, ...]]:
    return [(t.state.name, t.values, t.params, t.intermediate_values) for t in study.trials]


@pytest.fixture(params=["sqlite", "journal"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/new/optuna.db"
    return str(tmp_path / "new" / "journal.log")


def reopened(uri: str, name: str = "sweep") -> optuna.Study:
    storage: Any = uri
    if "://" not in uri:
        backend = optuna.storages.journal.JournalFileBackend(uri)
        storage = optuna.storages.JournalStorage(backend)
    return optuna.load_study(study_name=name, storage=storage)


def test_a_resumed_sweep_goes_on_in_its_copy(uri: str, tmp_path: Path) -> None:
    sweep, state = spec(uri), str(tmp_path / "state")
    first = study_copy(sweep)
    assert first is not None
    search = searcher(sweep, first)
    for trial in "abc":
        search.suggest(trial)
    search.on_trial_complete("a", step(search, "a", 1.0, 10))
    step(search, "b", 2.0, 10)
    search.save(state)
    # The driver goes on a little after its last save, and is killed.
    lost = search.suggest("lost")
    first.update(search.study)
    first.close()
    assert [t.state.name for t in reopened(uri).trials] == ["COMPLETE", *["RUNNING"] * 3]

    again = study_copy(sweep, resumed=True)
    search = searcher(sweep, again)
    search.restore(state)
    assert search.copy is again
    assert search.suggest("d") == lost
    search.on_trial_complete("b", {**step(search, "b", 3.0, 20), "pruned": True})
    search.on_trial_complete("c", step(search, "c", 4.0, 20))
    search.on_trial_complete("d", step(search, "d", 5.0, 20))
    search.save(state)
    assert again is not None and again.close() == 0
    assert summary(reopened(uri)) == summary(search.study)
    assert [t.state.name for t in search.study.trials] == [
        "COMPLETE",
        "PRUNED",
        "COMPLETE",
        "COMPLETE",
    ]


def test_a_trial_that_a_kill_left_running_is_taken_up_or_ended(uri: str, tmp_path: Path) -> None:
    sweep, state = spec(uri), str(tmp_path / "state")
    first = study_copy(sweep)
    search = searcher(sweep, first)
    search.suggest("a")
    search.save(state)
    for trial in ("same", "other"):
        search.suggest(trial)
    assert first is not None
    first.update(search.study)
    first.close()
    assert [t.state.name for t in reopened(uri).trials] == ["RUNNING"] * 3

    again = study_copy(sweep, resumed=True)
    assert again is not None
    search = searcher(sweep, again)
    search.restore(state)
    search.suggest("same")  # suggested as before: it goes on in its old copy
    search.on_trial_complete("same", step(search, "same", 1.0, 10))
    search.save(state)
    assert again.close() == 0
    states = [t.state.name for t in reopened(uri).trials]
    assert states == ["RUNNING", "COMPLETE", "FAIL"]  # "other" was never run again


def test_a_trial_that_goes_on_after_its_end_has_a_new_copy(uri: str, tmp_path: Path) -> None:
    sweep, state = spec(uri), str(tmp_path / "state")
    first = study_copy(sweep)
    assert first is not None
    search = searcher(sweep, first)
    for trial, value in (("a", 1.0), ("b", 2.0)):
        search.suggest(trial)
        search.on_trial_complete(trial, step(search, trial, value, 10))
    search.save(state)
    first.close()

    for steps, value in ((20, 5.0), (30, 7.0)):  # a longer budget, twice
        again = study_copy(sweep, resumed=True)
        assert again is not None
        search = searcher(sweep, again)
        search.restore(state)
        search.reopen({"a"})
        step(search, "a", value, steps)
        if steps == 20:  # else the copy is told of the new end only
            search.save(state)
            assert wait(lambda: reopened(uri).trials[-1].state.name == "RUNNING")
        search.on_trial_complete("a", step(search, "a", value, steps))
        search.save(state)
        assert again.close() == 0
    copies = [(t.user_attrs["sweep_number"], t.value) for t in reopened(uri).trials]
    assert copies == [(0, 1.0), (1, 2.0), (0, 5.0), (0, 7.0)]
    assert [t.user_attrs.get("supersedes") for t in reopened(uri).trials] == [None, None, 0, 2]
    assert reopened(uri).trials[-1].intermediate_values == {10: 1.0, 20: 5.0, 30: 7.0}

    again = study_copy(sweep, resumed=True)  # nothing goes on: nothing is new
    assert again is not None
    again.update(search.study)
    assert wait(lambda: not again._pending) and len(reopened(uri).trials) == 4
    search.reopen({"b"})  # in the process in which it ended
    again.update(search.study)
    assert again.close() == 0
    last = reopened(uri).trials[-1]
    assert last.state.name == "RUNNING" and last.user_attrs["supersedes"] == 1


def wait(condition: Any, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_new_sweep_takes_no_study_of_another(uri: str) -> None:
    first = study_copy(spec(uri))
    assert first is not None
    empty = study_copy(spec(uri))  # a run that ended before its first trial
    assert empty is not None
    search = searcher(spec(uri), first)
    search.suggest("a")
    first.update(search.study)
    first.close()
    with pytest.raises(PreflightError, match="has a study 'sweep' already, with 1 trials"):
        study_copy(spec(uri))
    other = study_copy(spec(uri, name="other"))
    assert other is not None
    other.close()
    empty.close()
    with pytest.raises(PreflightError, match="has other objectives"):
        study_copy(spec(uri, objective={"mode": "min"}), resumed=True)


def test_a_storage_that_dies_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(study_storage, "_RETRY_S", 0.2)
    uri = f"sqlite:///{tmp_path}/optuna.db"
    study = study_copy(spec(uri))
    assert study is not None
    search = searcher(spec(uri), study)
    search.suggest("a")
    with sqlite3.connect(tmp_path / "optuna.db") as database:
        database.execute("ALTER TABLE trials RENAME TO hidden")
    start = time.monotonic()
    for n in range(5):
        step(search, "a", float(n), n + 1)
        search.save(str(tmp_path / "state"))
    assert time.monotonic() - start < 2  # nobody waits for the storage
    assert wait(lambda: "does not take trials" in caplog.text)
    with sqlite3.connect(tmp_path / "optuna.db") as database:
        database.execute("ALTER TABLE hidden RENAME TO trials")
    search.on_trial_complete("a", step(search, "a", 9.0, 10))
    search.save(str(tmp_path / "state"))
    assert study.close() == 0
    assert summary(reopened(uri)) == summary(search.study)
    assert caplog.text.count("does not take trials") == 1


def test_storages_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "text.db"
    file.write_text("this is no database, but it is long enough to be looked at" * 20)
    with pytest.raises(PreflightError, match=r"text\.db is no SQLite database"):
        study_copy(spec(f"sqlite:///{file}"))
    with pytest.raises(PreflightError, match=r"cannot be reached: .*refused"):
        study_copy(spec("postgresql://somebody@127.0.0.1:9/optuna"))
    for uri, expected in (
        ("http://x", "allowed: sqlite://…, postgresql://…"),
        ("postgresql://somebody:secret@host/optuna", "in an environment variable"),
    ):
        with pytest.raises(SpecError, match=expected) as error:
            spec(uri)
        assert "secret" not in str(error.value)
    with pytest.raises(SpecError, match="study_name needs study_storage"):
        spec("x", search={"algorithm": "tpe", "study_name": "y"})


def test_a_password_stays_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDY_URI", "postgresql://somebody:secret@127.0.0.1:9/optuna")
    sweep = spec("${env:STUDY_URI}")
    assert sweep.search.study_storage.endswith("secret@127.0.0.1:9/optuna")
    assert "secret" not in dump_spec(sweep)
    file = tmp_path / "spec.yaml"
    file.write_text(dump_spec(sweep))
    assert load_spec(file) == sweep
    with pytest.raises(PreflightError) as error:
        study_copy(sweep)
    assert "secret" not in str(error.value) and "***@127.0.0.1" in str(error.value)
