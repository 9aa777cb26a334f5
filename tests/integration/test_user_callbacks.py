"""A sweep with callbacks of its user's: they are called, outlive a resume, and cannot harm it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from tune_callbacks import WANDB, notes, pretend

from experiments import SweepError, resume, run
from experiments.sweep.load import make_spec

pytestmark = pytest.mark.usefixtures("ray_here")

SECRET = "k3y-0f-4da"


def data(tmp_path: Path, **args: Any) -> dict[str, Any]:
    given = {"file": str(tmp_path / "notes"), "api_key": "${env:NOTES_KEY}", **args}
    return {
        "name": "sweep",
        "trainable": "sweep_dummy:Dummy",
        "search_space": {"lr": {"grid": [0.01, 0.02]}},
        "storage": str(tmp_path),
        "stop": {"training_iteration": 2},
        "callbacks": [{"class": "tune_callbacks:Notes", "args": given}],
    }


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_KEY", SECRET)


def test_they_are_called_and_outlive_a_resume(tmp_path: Path) -> None:
    results = run(make_spec(data(tmp_path)))
    assert [result.metrics["training_iteration"] for result in results] == [2, 2]
    said = notes(tmp_path / "notes")
    hooks = [note["hook"] for note in said]
    assert hooks[0] == "setup" and hooks[-1] == "on_experiment_end"
    assert (hooks.count("on_trial_result"), hooks.count("on_trial_complete")) == (4, 2)
    assert {note["key"] for note in said} == {len(SECRET)}
    (tmp_path / "notes").unlink()
    resume(tmp_path / "sweep", stop={"training_iteration": 3})
    said = notes(tmp_path / "notes")
    assert {note["key"] for note in said} == {len(SECRET)}  # made anew, with the key
    assert [note["hook"] for note in said].count("on_trial_result") == 2
    assert said[0]["count"] == 4  # its state is back
    everything = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"tuner.pkl", "spec.yaml", "mlflow.db"} <= {path.name for path in everything}
    holding = [path for path in everything if SECRET.encode() in path.read_bytes()]
    assert holding == []


def test_their_exceptions_do_not_end_the_sweep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = data(tmp_path, fail_in=["on_trial_start", "on_trial_result", "on_experiment_end"])
    with caplog.at_level(logging.WARNING, logger="experiments"):
        results = run(make_spec(failing))
    # It also emptied the results that it was given.
    assert [result.metrics["training_iteration"] for result in results] == [2, 2]
    assert results.get_best_result("episode_return_mean", "max").config["lr"] == 0.01
    told = [
        r.getMessage() for r in caplog.records if r.name == "experiments.running.user_callbacks"
    ]
    assert [message.partition(" failed in ")[2].partition(":")[0] for message in told] == [
        *("on_trial_start", "on_trial_result", "on_experiment_end")
    ]


def test_one_that_cannot_begin_is_told_before_any_trial(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=r"callbacks\.0: tune_callbacks:Notes cannot begin: Runt"):
        run(make_spec(data(tmp_path, fail_in=["setup"])))
    assert not list((tmp_path / "sweep").glob("*/result.json"))


class WandbLoggerCallback(tune.Callback):
    """Notes what Ray's callback for W&B would send."""

    sent: list[tuple[str, dict[str, Any]]] = []  # noqa: RUF012

    def __init__(
        self, project: str | None = None, group: str | None = None, **options: Any
    ) -> None:
        self.place = f"{project}/{group}"

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.sent.append((self.place, result))


def test_a_tracker_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_PROJECT", "WANDB_PROJECT_NAME"):
        monkeypatch.delenv(name, raising=False)
    pretend(monkeypatch, "wandb", WANDB, WandbLoggerCallback)
    spec = {**data(tmp_path), "callbacks": [], "loggers": ["wandb"], "mlflow": {"enabled": False}}
    run(make_spec(spec))
    assert {place for place, _ in WandbLoggerCallback.sent} == {"tunescape/sweep"}
    assert sum("episode_return_mean" in result for _, result in WandbLoggerCallback.sent) == 4
