"""Sweeps from specs: what runs, what it leaves behind, and how it goes on when cut off."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from dummy_sweeps import configs, spec_of, states_in_optuna, sweep
from forked_drivers import Driver
from mlflow_client import mlflow_client
from ray import tune
from sweep_dummy import STEPS
from sweep_processes import ended, rows, wait_for_trials

import experiments
from experiments.durability.keeper import SweepKeeper
from experiments.errors import MachineFailed
from experiments.running.runner import resume_sweep
from experiments.sweep.load import make_spec
from experiments.trial_info import read_json_lines

pytestmark = pytest.mark.usefixtures("ray_here")


def test_optuna_under_asha(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        search={"algorithm": "optuna", "n_startup_trials": 3},
        scheduler={"algorithm": "asha", "grace_period": 2 * STEPS, "reduction_factor": 2},
        search_space={
            "lr": {"loguniform": [1e-4, 1e-1]},
            "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
            "model.fcnet_hiddens": {"choice": [[64, 64], [32]]},
        },
        num_samples=7,
        seed=3,
        mlflow={},
    )
    folder = tmp_path / "sweep"
    assert outcome.num_trials == 7 and not outcome.failures and not outcome.interrupted
    lengths = [max(iterations) for iterations in rows(folder).values()]
    assert len(lengths) == 7
    assert max(lengths) == 8 and min(lengths) < 8, lengths  # some ran to the end, some were stopped
    for config in configs(outcome):
        assert set(config) == {"lr", "gamma", "model", "seed"}
        assert 0.9 <= config["gamma"] <= 0.999
        assert config["model"]["fcnet_hiddens"] in ([64, 64], [32])
        assert config["seed"] == 3
    # Two processes served all seven trials.
    frame = outcome.results.get_dataframe()
    assert frame["pid"].nunique() <= 2
    assert (folder / "spec.yaml").is_file()
    assert (tmp_path / "mlflow.db").is_file()
    # The policy is that of the best checkpoint: its count is the number of iterations.
    assert outcome.best == folder / "best"
    assert json.loads((folder / "best" / "policy.json").read_text()) == {"count": 8}

    states = states_in_optuna(folder)
    assert states.count("COMPLETE") == lengths.count(8)
    assert states.count("PRUNED") == 7 - lengths.count(8)


def test_grid_search_runs_every_combination_once(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        search="grid",
        search_space={"lr": {"grid": [0.1, 0.2]}, "num_epochs": {"choice": [1, 2]}},
        stop={"training_iteration": 1},
    )
    found = sorted((config["lr"], config["num_epochs"]) for config in configs(outcome))
    assert found == [(0.1, 1), (0.1, 2), (0.2, 1), (0.2, 2)]


def test_the_same_seed_draws_the_same_configurations(tmp_path: Path) -> None:
    keys = {
        "search_space": {"lr": {"uniform": [0.1, 1]}},
        "num_samples": 2,
        "stop": {"training_iteration": 1},
        "seed": 5,
    }
    first = sweep(tmp_path, name="a", **keys)
    second = sweep(tmp_path, name="b", **keys)
    assert configs(first) == configs(second)
    assert len({config["lr"] for config in configs(first)}) == 2


def test_stop_on_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Ray's count of callbacks, for its report of usage, imports MLflow.
    monkeypatch.delattr("ray.air._internal.usage._count_callbacks")
    outcome = sweep(tmp_path, config={"lr": 0.01}, stop={"episode_reward_mean": 3})
    assert rows(outcome.folder) == {next(iter(rows(outcome.folder))): [1, 2, 3]}


def test_failing_trials_do_not_end_the_sweep(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        search_space={"fail_at": {"grid": [0, 2, 3]}},
        stop={"training_iteration": 4},
        max_failures=0,
    )
    assert outcome.num_trials == 3 and len(outcome.failures) == 2 and not outcome.all_failed
    assert all("the dummy fails as asked" in cause for _, cause in outcome.failures)
    assert outcome.best is not None


def test_a_sweep_without_a_finite_objective_ends(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        config={"nan": True},
        search="optuna",
        search_space={"lr": {"uniform": [0.1, 1]}},
        stop={"training_iteration": 2},
        num_samples=3,
    )
    assert outcome.num_trials == 3 and not outcome.failures
    assert outcome.best is None and "finite" in outcome.note and not outcome.succeeded
    assert states_in_optuna(outcome.folder) == ["FAIL"] * 3


def test_an_existing_sweep_is_never_overwritten(tmp_path: Path) -> None:
    sweep(tmp_path, stop={"training_iteration": 1})
    before = rows(tmp_path / "sweep")
    with pytest.raises(experiments.PreflightError, match="exists already"):
        sweep(tmp_path, stop={"training_iteration": 1})
    assert rows(tmp_path / "sweep") == before


def test_build_tuner_is_a_plain_tuner(tmp_path: Path) -> None:
    tuner = experiments.build_tuner(
        make_spec(spec_of(tmp_path, config={"lr": 0.5}, stop={"training_iteration": 2}))
    )
    (result,) = tuner.fit()
    assert result.metrics is not None and result.metrics["training_iteration"] == 2


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_resume_keeps_what_was_finished(tmp_path: Path, how: signal.Signals) -> None:
    keys = {
        "config": {"seconds": 0.2},  # what a busy machine takes to pass on a signal is less
        "search": {"algorithm": "optuna", "n_startup_trials": 2},
        "search_space": {"lr": {"loguniform": [1e-4, 1e-1]}},
        "num_samples": 4,
        "checkpoint": {"frequency": 1},
        "resources": {"num_cpus": 2},
    }
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(spec_of(tmp_path / "runs", **keys)))
    process = Driver("run", str(spec), cwd=tmp_path, errors_apart=True)
    folder = tmp_path / "runs" / "sweep"
    wait_for_trials(2, folder, process)
    process.send_signal(how)
    output, errors = process.communicate(timeout=240)
    if how is signal.SIGINT:
        assert process.returncode == 130, errors
        assert "Interrupted" in output and "tunescape resume runs/sweep" in output
        assert "Traceback" not in errors
    before = rows(folder)
    finished = set(ended(folder))
    assert 2 <= len(finished) < 4

    outcome = resume_sweep(folder)
    after = rows(folder)
    assert len(after) == outcome.num_trials == 4
    assert not outcome.failures and not outcome.interrupted
    for name in finished:
        assert after[name] == before[name]
    for iterations in after.values():
        assert iterations == list(range(1, 9))
    assert states_in_optuna(folder) == ["COMPLETE"] * 4
    assert outcome.best == folder / "best"


@pytest.mark.parametrize("frequency", [pytest.param(0, marks=pytest.mark.full), 3])
def test_a_process_that_dies_doubles_no_rows(tmp_path: Path, frequency: int) -> None:
    """It starts again from its checkpoint, or from the beginning, inside the same driver."""
    (tmp_path / "die").touch()
    outcome = sweep(
        tmp_path,
        config={"die_file": str(tmp_path / "die"), "die_at": 6},
        checkpoint={"frequency": frequency},
        max_failures=1,
        loggers=["csv"],
        mlflow={},
    )
    assert not outcome.failures and not (tmp_path / "die").exists()
    assert list(rows(outcome.folder).values()) == [list(range(1, 9))]
    (file,) = outcome.folder.glob("*/result.json")
    restarts = [
        json.loads(line)["iterations_since_restore"] for line in file.read_text().splitlines()
    ]
    assert restarts == [*range(1, frequency + 1), *range(1, 9 - frequency)]
    (table,) = outcome.folder.glob("*/progress.csv")
    assert len(table.read_text().splitlines()) == 1 + 8
    client = mlflow_client(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs(["1"], "tags.`tunescape.kind` = 'trial'")
    points = client.get_metric_history(run.info.run_id, "training_iteration")
    assert [(p.step, p.value) for p in points] == [(100 * i, i) for i in range(1, 9)]


def test_a_full_disk_ends_the_sweep_and_fails_no_trial(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.touch()
    keys = {"search_space": {"lr": {"grid": [0.01, 0.02, 0.03]}}, "checkpoint": {"frequency": 2}}
    with pytest.raises(MachineFailed) as failed:
        sweep(tmp_path, config={"full_file": str(full)}, max_failures=1, mlflow={}, **keys)
    message, folder = str(failed.value), tmp_path / "sweep"
    assert "\n" not in message and "mounted at /" in message and " is full: " in message
    assert f"`tunescape resume {folder}`" in message and failed.value.exit_status == 3
    client = mlflow_client(f"sqlite:///{tmp_path}/mlflow.db")
    assert "RUNNING" not in [run.info.status for run in client.search_runs(["1"])]
    full.unlink()
    outcome = resume_sweep(folder)  # without retry_errored
    assert outcome.succeeded and not outcome.failures and outcome.best == folder / "best"
    assert list(rows(folder).values()) == [list(range(1, 9))] * 3


def test_resume_refuses_what_it_cannot_continue(tmp_path: Path) -> None:
    with pytest.raises(experiments.SweepError, match="no such folder"):
        resume_sweep(tmp_path / "none")
    with pytest.raises(experiments.SweepError, match=r"not a sweep's folder: it has no spec.yaml"):
        resume_sweep(tmp_path)
    outcome = sweep(tmp_path, stop={"training_iteration": 1})
    before = rows(outcome.folder)
    saved = (outcome.folder / "tuner.pkl").read_bytes()
    (outcome.folder / "tuner.pkl").write_bytes(b"cexperiments.asha\nTunescapeASHA\n.")
    with pytest.raises(experiments.SweepError, match="saved by another release of Tunescape"):
        resume_sweep(outcome.folder)
    (outcome.folder / "tuner.pkl").write_bytes(saved)
    (state,) = outcome.folder.glob("experiment_state-*.json")
    state.write_text(state.read_text()[:100])
    with pytest.raises(experiments.SweepError, match="state of the sweep cannot be read"):
        resume_sweep(outcome.folder)
    assert rows(outcome.folder) == before
    state.unlink()
    with pytest.raises(experiments.SweepError, match="state of the sweep is missing"):
        resume_sweep(outcome.folder)
    assert rows(outcome.folder) == before
    mine = tmp_path / "mine"  # a user's own spec is no sweep that was cut off
    mine.mkdir()
    text = yaml.safe_dump(spec_of(tmp_path)) + "# my notes\n"
    (mine / "spec.yaml").write_text(text)
    with pytest.raises(experiments.SweepError, match=r"would delete spec.yaml"):
        resume_sweep(mine)
    assert (mine / "spec.yaml").read_text() == text


class CopiesUndecided(tune.Callback):
    """Copies a sweep as it is saved while its second trial is to end after a checkpoint.

    Args:
        sweep: The sweep's folder.
        copy: Where the copy is to lie.
    """

    def __init__(self, sweep: str, copy: str) -> None:
        self._sweep, self._copy = Path(sweep), Path(copy)

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        states = sorted(self._sweep.glob("experiment_state-*.json"))
        if states and len(trials) == 2 and not self._copy.exists():
            saved = json.loads(states[-1].read_text())["runner_data"]
            if "STOP" in saved["_cached_trial_decisions"].values():
                shutil.copytree(self._sweep, self._copy)


def test_a_trial_killed_before_it_was_ended_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune would end it after its next checkpoint, with a last row that is not the last."""
    touch = SweepKeeper._touch

    def touch_and_save(keeper: SweepKeeper, trial: Any) -> None:
        touch(keeper, trial)
        keeper._dirty = True  # after each result, as where others start and end at that moment

    monkeypatch.setattr(SweepKeeper, "_touch", touch_and_save)
    folder, copy = tmp_path / "sweep", tmp_path / "copy"
    asha = {"algorithm": "asha", "grace_period": 2 * STEPS, "reduction_factor": 2}
    paths = {"sweep": str(folder), "copy": str(copy)}
    sweep(
        tmp_path,
        trainable="sweep_dummy:SavesSlowly",
        scheduler=asha,
        search_space={"lr": {"grid": [0.01, 0.5]}},
        checkpoint={"frequency": 1},
        max_concurrent=1,
        stop={"num_env_steps_sampled_lifetime": 4 * STEPS},
        callbacks=[{"class": f"{__name__}:CopiesUndecided", "args": paths}],
    )
    expected = rows(folder)
    assert sorted(map(len, expected.values())) == [2, 4]
    shutil.rmtree(folder)
    copy.rename(folder)
    assert sorted(map(len, rows(folder).values())) != [2, 4]
    assert not resume_sweep(folder).failures
    assert rows(folder) == expected
    last = [read_json_lines(file)[-1] for file in folder.glob("*/result.json")]
    assert sorted((row["training_iteration"], row["done"], row["pruned"]) for row in last) == [
        (2, True, True),
        (4, True, False),
    ]
