"""A host that dies, and a trial that fails in one: who else is touched, and what is said."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from experiments.monitor import host_watch
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

pytestmark = pytest.mark.usefixtures("ray_here")

RETURN = "episode_return_mean"
LAST, ITERATIONS = 6, 40
Key = tuple[float, int]


def swept(folder: Path, name: str, **keys: Any) -> Outcome:
    config = {
        "env": "CartPole-v1",
        "num_envs_per_env_runner": 8,
        "train_batch_size_per_learner": 256,
        "minibatch_size": 64,
        "num_epochs": 2,
        **keys.pop("config", {}),
    }
    data = {
        "name": name,
        "trainable": "PPO",
        "config": config,
        "search_space": {"lr": {"grid": [1e-3, 1e-4]}, "seed": {"grid": [0, 1]}},
        "stop": {"training_iteration": LAST},
        "checkpoint": {"frequency": 1},
        "trial_batching": "auto",
        "storage": str(folder),
        "mlflow": {"enabled": False},
        **keys,
    }
    return run_sweep(Sweep.of(make_spec(data)))


def killed(folder: Path, name: str, **keys: Any) -> Outcome:
    kills = [{"class": "hosted_faults:Kills", "args": {"at": 3}}]
    return swept(folder, name, callbacks=kills, **keys)


def rows(folder: Path) -> dict[Key, list[dict[str, Any]]]:
    """Each trial's results, by its settings, as they are on disk."""
    found = {}
    for path in sorted(folder.glob("*/params.json")):
        config = json.loads(path.read_text())
        found[config["lr"], config["seed"]] = read_json_lines(path.with_name("result.json"))
    return found


def weights(folder: Path) -> dict[Key, np.ndarray]:
    """Of the policy in each trial's last checkpoint."""
    found = {}
    for path in sorted(folder.glob("*/params.json")):
        config = json.loads(path.read_text())
        checkpoint = max(path.parent.glob("checkpoint_*"))
        parts = load_file(checkpoint / "policies" / "default_policy" / "policy.safetensors")
        found[config["lr"], config["seed"]] = np.concatenate([parts[n].ravel() for n in parts])
    return found


@pytest.fixture(scope="module")
def undisturbed(ray_here: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweeps") / "undisturbed"
    swept(folder.parent, folder.name)
    found = rows(folder)
    assert len({own[0]["pid"] for own in found.values()}) == 2
    assert all(len(own) == LAST for own in found.values())
    return folder


def assert_alike(
    folder: Path, undisturbed: Path, of: Callable[[Key], bool] = lambda _: True
) -> None:
    """Compare all results of some trials, and what they have learned.

    A product's rounding depends on how many members have part in it, and that on the moment at
    which each asks: equal to the bit are only sweeps with the same members at each step.
    """
    expected, learned = rows(undisturbed), weights(undisturbed)
    found = {key: own for key, own in rows(folder).items() if of(key)}
    assert found
    for key, own in found.items():
        returns = {row["training_iteration"]: row[RETURN] for row in expected[key]}
        assert {row["training_iteration"]: row[RETURN] for row in own} == pytest.approx(returns)
        np.testing.assert_allclose(weights(folder)[key], learned[key], atol=1e-5)


@pytest.mark.full("integration/test_hosted_sweeps.py::test_trials_of_hosts_are_those_of_processes")
def test_trials_of_a_killed_host_go_on_in_another_one(tmp_path: Path, undisturbed: Path) -> None:
    outcome = killed(tmp_path, "killed", max_failures=1)
    assert not outcome.failures
    found = rows(tmp_path / "killed")
    moved = {key for key, own in found.items() if own[0]["pid"] != own[-1]["pid"]}
    assert len(moved) == 2  # the others stayed where they were
    assert len({own[-1]["pid"] for own in found.values()}) == 2
    for key, own in found.items():
        steps = [row["training_iteration"] for row in own]
        assert sorted(set(steps)) == list(range(1, LAST + 1))
        assert len(steps) <= LAST + (key in moved)  # of what was saved nothing is done again
        assert own[-1]["done"]
    assert_alike(tmp_path / "killed", undisturbed)


@pytest.mark.full("integration/test_hosted_sweeps.py::test_trials_of_hosts_are_those_of_processes")
def test_without_retries_they_fail_and_say_what_happened(tmp_path: Path, undisturbed: Path) -> None:
    outcome = killed(tmp_path, "failed", max_failures=0)
    assert len(outcome.failures) == 2
    assert all("process has died" in cause for _, cause in outcome.failures)
    errors = [path.read_text() for path in (tmp_path / "failed").glob("*/error.txt")]
    assert len(errors) == 2 and all("class_name: Host" in text for text in errors)
    whole = {key for key, own in rows(tmp_path / "failed").items() if own[-1].get("done")}
    assert len(whole) == 2
    assert_alike(tmp_path / "failed", undisturbed, of=whole.__contains__)


@pytest.mark.full("integration/test_hosted_sweeps.py::test_trials_of_hosts_are_those_of_processes")
def test_a_trial_that_raises_fails_alone(tmp_path: Path, undisturbed: Path) -> None:
    outcome = swept(
        tmp_path,
        "raising",
        trainable="hosted_faults:Fails",
        config={"fail_at": 3},
        max_failures=0,
    )
    assert [cause for _, cause in outcome.failures] == ["ValueError: no more of it"] * 2
    assert {len(own) for key, own in rows(tmp_path / "raising").items() if key[1] == 1} == {2}
    assert_alike(tmp_path / "raising", undisturbed, of=lambda key: key[1] == 0)


@pytest.mark.full("integration/test_hosted_sweeps.py::test_trials_of_hosts_are_those_of_processes")
def test_an_interrupted_sweep_goes_on_as_if_it_had_not_been(
    tmp_path: Path, undisturbed: Path
) -> None:
    interrupts = [{"class": "hosted_faults:Interrupts", "args": {"at": 3}}]
    outcome = swept(tmp_path, "cut", callbacks=interrupts)
    assert outcome.interrupted
    assert all(len(own) < LAST for own in rows(tmp_path / "cut").values())
    resumed = resume_sweep(tmp_path / "cut")
    assert not resumed.interrupted
    assert_alike(tmp_path / "cut", undisturbed)


@pytest.mark.full("integration/test_hosted_sweeps.py::test_trials_of_hosts_are_those_of_processes")
def test_a_host_whose_environment_hangs_is_told_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_watch, "HostWatch", partial(host_watch.HostWatch, first_s=1.0))
    file, sweep = tmp_path / "hang", tmp_path / "hanging"
    reached: list[tuple[int, int]] = []

    def hung_for_a_while() -> None:
        """Until there was a warning, and the trials of the other host have ended."""
        until = time.monotonic() + 120
        while time.monotonic() < until and _lengths(sweep).count(0) + 4 - len(_lengths(sweep)):
            time.sleep(0.05)
        file.touch()
        while time.monotonic() < until and not (
            _warnings(caplog) and _lengths(sweep).count(ITERATIONS) >= 2
        ):
            time.sleep(0.05)
        reached.append((min(1, len(_warnings(caplog))), _lengths(sweep).count(ITERATIONS)))
        file.unlink()

    thread = threading.Thread(target=hung_for_a_while, daemon=True)
    thread.start()
    outcome = swept(
        tmp_path,
        "hanging",
        config={"env": "hosted_faults:Hangs", "num_envs_per_env_runner": 1},
        search_space={"env_config.file": {"grid": [str(file), "none", "neither", "nor"]}},
        stop={"training_iteration": ITERATIONS},
    )
    thread.join()
    assert reached == [(1, 2)]
    assert not outcome.failures
    [hanging] = [r for r in outcome.results if r.config["env_config"]["file"] == str(file)]
    mates = [r for r in outcome.results if r.metrics["pid"] == hanging.metrics["pid"]]
    said = _warnings(caplog)[0]
    assert f"The process {hanging.metrics['pid']} of several trials has been busy" in said
    assert f"with trial {hanging.metrics['trial_id']};" in said
    assert "hosted_faults.py" in said and "(step). 2 trials wait for it: " in said
    assert all(mate.metrics["trial_id"] in said for mate in mates)
    assert f"kill -9 {hanging.metrics['pid']}" in said


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == host_watch.__name__]


def _lengths(sweep: Path) -> list[int]:
    return [len(read_json_lines(path)) for path in sweep.glob("*/result.json")]
