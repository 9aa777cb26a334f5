"""Callbacks and trackers of a spec: what they may be, and that no key is written with them."""

from __future__ import annotations

import logging
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray import tune
from refusals import Golden, refusals
from tune_callbacks import WANDB, Broken, Notes, notes, pretend

from experiments.commands.show_spec import python_source
from experiments.errors import PreflightError, SpecError, SweepError
from experiments.running.user_callbacks import GuardedCallback, callbacks_of
from experiments.spec import named_loggers
from experiments.spec.callback_classes import Wanted, wanted_callbacks
from experiments.spec.paths import sweep_dir
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import dump_spec, load_spec, make_spec, read_spec

NOTES = "tune_callbacks:Notes"


def spec_of(**keys: Any) -> SweepSpec:
    stop = {"training_iteration": 1}
    return make_spec({"name": "x", "trainable": "sweep_dummy:Dummy", "stop": stop, **keys})


def entry(**args: Any) -> dict[str, Any]:
    return {"class": NOTES, "args": {"file": "notes.jsonl", **args}}


class WandbLoggerCallback(tune.Callback):
    """Takes what Ray's takes."""

    def __init__(
        self, project: str | None = None, group: str | None = None, **options: Any
    ) -> None:
        self.given = {"project": project, "group": group, **options}


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_PROJECT", "WANDB_PROJECT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(WandbLoggerCallback, "__module__", WANDB)
    pretend(monkeypatch, "wandb", WANDB, WandbLoggerCallback)


def test_forms() -> None:
    assert spec_of().callbacks == []
    for form in (f"{__name__}:WandbLoggerCallback", [f"{__name__}:WandbLoggerCallback"]):
        (found,) = spec_of(callbacks=form).callbacks
        assert (found.class_, found.args) == (f"{__name__}:WandbLoggerCallback", {})
    spec = spec_of(callbacks=[entry(fail_in=["setup"])])
    data = yaml.safe_load(dump_spec(spec))
    assert data["callbacks"] == [entry(fail_in=["setup"])]
    assert make_spec(data) == spec


MISTAKES: list[Any] = [
    "nothing",
    "wandbb",
    "no_such:Thing",
    "tune_callbacks:None_",
    "tune_callbacks:NoCallback",
    [{"class": NOTES}],
    [entry(fial_in=[])],
    [{"klass": NOTES}],
    [{"args": {}}],
    5,
]


def test_mistakes(golden: Golden) -> None:
    texts = refusals(lambda given: spec_of(callbacks=given), MISTAKES, SpecError)
    golden("sweeps/callbacks", texts)


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_loggers.importlib.util, "find_spec", lambda name: None)
    for name, package in (("wandb", "wandb"), ("comet", "comet-ml"), ("aim", "aim")):
        said = rf"pip install '{package}', or tunescape with the extra \[{name}\]"
        with pytest.raises(SpecError, match=rf"loggers\.1: '{name}' needs .*{said}"):
            spec_of(loggers=["json", name])
        with pytest.raises(SpecError, match=rf"callbacks\.0\.class: '{name}' needs .*{said}"):
            spec_of(callbacks=name)
    with pytest.raises(SpecError, match=r"loggers\.0 = 'wandbb' is not allowed.*'wandb'"):
        spec_of(loggers=["wandbb"])


def test_trackers_are_made_for_the_sweep(wandb: None, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(loggers=["csv", "wandb"], mlflow={"experiment_name": "ours"})
    (guarded,) = callbacks_of(spec)
    assert isinstance(guarded, GuardedCallback)
    made: Any = guarded.callback
    folder = str(sweep_dir(spec))
    assert made.given == {"project": "ours", "group": "x", "resume": "allow", "dir": folder}
    spec = spec_of(callbacks=[{"class": "wandb", "args": {"project": "p", "mode": "offline"}}])
    (wanted,) = wanted_callbacks(spec)
    given = {"project": "p", "group": "x", "resume": "allow", "mode": "offline", "dir": folder}
    assert wanted.args == given
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    (wanted,) = wanted_callbacks(spec_of(loggers=["wandb"]))
    assert wanted.args["project"] == "theirs"


SECRET = "k3y-0f-4da"


def test_keys_come_from_the_environment_and_are_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_KEY", SECRET)
    monkeypatch.setenv("FOLDER", "/data")
    file = tmp_path / "x.yaml"
    given = entry(api_key="${env:NOTES_KEY}", file="${env:FOLDER}/n.jsonl")
    stop = {"training_iteration": 1}
    data = {"trainable": "sweep_dummy:Dummy", "stop": stop, "callbacks": [given]}
    file.write_text(yaml.safe_dump(data))
    spec = load_spec(file)
    assert spec.callbacks[0].args == {"file": "/data/n.jsonl", "api_key": SECRET}
    written = dump_spec(spec)
    assert SECRET not in written and "${env:NOTES_KEY}" in written
    copy = tmp_path / "spec.yaml"
    copy.write_text(written)
    assert read_spec(copy).callbacks == spec.callbacks  # a resume reads the key again
    source = python_source(spec)
    assert SECRET not in source and '"api_key": "${env:NOTES_KEY}"' in source
    (guarded,) = callbacks_of(spec)
    assert SECRET.encode() not in pickle.dumps(guarded)


KEYS: list[dict[str, Any]] = [
    {"api_key": SECRET},
    {"api_key": 12345},
    {"api_key": "${env:NOT_SET:k3y}"},
    {"fail_in": [{"password": "x"}]},
    {"file": "https://ada:pa55@host/x"},
    {"fail_in": {"a.b": "${env:HOME}"}},
]


def test_a_key_in_the_spec_is_refused(golden: Golden) -> None:
    texts = refusals(lambda args: spec_of(callbacks=[entry(**args)]), KEYS, SpecError)
    assert not any(secret in str([*texts.values()]) for secret in (SECRET, "12345", "k3y", "pa55"))
    golden("sweeps/keys_in_callbacks", texts)


def test_numbers_and_switches_are_no_keys() -> None:
    assert spec_of(callbacks=[entry(api_key=None, fail_in=[])])


# -- the guard ---------------------------------------------------------------------------------


def guarded(callback: tune.Callback) -> GuardedCallback:
    return GuardedCallback(Wanted("callbacks.0", NOTES, {}), callback)


def test_every_hook_is_passed_on(tmp_path: Path) -> None:
    seen = []

    class Spy(tune.Callback):
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("on_"):
                seen.append(name)
            return super().__getattribute__(name)

    hooks = [name for name in vars(tune.Callback) if name.startswith("on_")]
    trial = {"iteration": 1, "trials": [], "trial": None, "result": {}, "checkpoint": None}
    wrapped = guarded(Spy())
    for hook in hooks:
        getattr(wrapped, hook)(**trial)
    assert seen == hooks


def test_an_exception_is_told_once_and_does_not_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "notes"
    wrapped = guarded(Notes(str(file), fail_in=["on_experiment_end"]))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            wrapped.on_experiment_end([])
    assert len(notes(file)) == 3  # it is called again
    (record,) = caplog.records
    assert record.getMessage() == (
        f"callbacks.0: {NOTES} failed in on_experiment_end: RuntimeError: on_experiment_end fails "
        "as asked. The sweep continues; repeats are not shown."
    )


def test_a_result_is_handed_over_as_a_copy(tmp_path: Path) -> None:
    class Trial:
        trial_id = "a"

    result = {"training_iteration": 1, "episode_return_mean": 2.0}
    guarded(Notes(str(tmp_path / "notes"))).on_trial_result(1, [], Trial(), dict(result) | result)
    wrapped = guarded(Notes(str(tmp_path / "notes")))
    wrapped.on_trial_result(1, [], Trial(), result)
    assert result == {"training_iteration": 1, "episode_return_mean": 2.0}


def test_one_that_cannot_begin_ends_the_sweep(tmp_path: Path) -> None:
    wrapped = guarded(Notes(str(tmp_path / "notes"), fail_in=["setup"]))
    with pytest.raises(
        SweepError, match=r"callbacks\.0: .* cannot begin: RuntimeError: setup fail"
    ):
        wrapped.setup(stop={})
    with pytest.raises(
        PreflightError, match=r"callbacks\.0: .*:Broken cannot be made: OSError: no"
    ):
        callbacks_of(spec_of(callbacks=f"{Broken.__module__}:Broken"))

    class Plain(tune.Callback):
        def setup(self) -> None:  # type: ignore[override]
            self.done = True

    plain = Plain()
    guarded(plain).setup(stop={}, num_samples=1)
    assert plain.done


def test_state_is_that_of_the_same_callback(tmp_path: Path) -> None:
    first, second = Notes(str(tmp_path / "n")), Notes(str(tmp_path / "n"))
    first.count = 7
    state = guarded(first).get_state()
    assert state is not None
    guarded(second).set_state(state)
    assert second.count == 7
    other = GuardedCallback(Wanted("callbacks.0", "another:Class", {}), Notes(str(tmp_path / "n")))
    other.set_state(state)
    assert getattr(other.callback, "count") == 0  # noqa: B009
    restored = pickle.loads(pickle.dumps(guarded(first)))
    with pytest.raises(RuntimeError, match="made anew from the spec"):
        _ = restored.callback


def test_the_list_of_hooks_is_tunes() -> None:
    """A release of Ray with another hook is found when the module is imported."""
    assert (
        "experiments.running.user_callbacks" in sys.modules
        and GuardedCallback.IS_CALLBACK_CONTAINER
    )
