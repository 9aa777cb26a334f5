"""A host that dies, and a trial that fails in one: who else is touched, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.running.results import Outcome
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

pytestmark = pytest.mark.usefixtures("ray_here")
REAL_WORKERS = True

RETURN = "episode_return_mean"
LAST = 6
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


def rows(outcome: Outcome) -> dict[Key, list[dict[str, Any]]]:
    """Each trial's results, by its settings, as they are on disk."""
    return {
        (result.config["lr"], result.config["seed"]): read_json_lines(
            Path(result.path, "result.json")
        )
        for result in outcome.results
    }


def last(outcome: Outcome) -> dict[Key, float]:
    return {key: own[-1][RETURN] for key, own in rows(outcome).items()}


@pytest.fixture(scope="module")
def undisturbed(
    ray_here: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[Key, list[dict[str, Any]]]:
    outcome = swept(tmp_path_factory.mktemp("sweeps"), "undisturbed")
    found = rows(outcome)
    assert len({own[0]["pid"] for own in found.values()}) == 2
    assert all(len(own) == LAST for own in found.values())
    return found


def returns_of(results: dict[Key, list[dict[str, Any]]]) -> dict[Key, float]:
    return {key: own[-1][RETURN] for key, own in results.items()}


def test_trials_of_a_killed_host_go_on_in_another_one(tmp_path: Path, undisturbed: Any) -> None:
    outcome = killed(tmp_path, "killed", max_failures=1)
    assert not outcome.failures
    found = rows(outcome)
    moved = {key for key, own in found.items() if own[0]["pid"] != own[-1]["pid"]}
    assert len(moved) == 2  # the others stayed where they were
    assert len({own[-1]["pid"] for own in found.values()}) == 2
    for key, own in found.items():
        steps = [row["training_iteration"] for row in own]
        assert sorted(set(steps)) == list(range(1, LAST + 1))
        assert len(steps) <= LAST + (key in moved)  # of what was saved nothing is done again
        assert own[-1]["done"]
    # Each host has the same members at a time as before, and so the same products.
    assert returns_of(found) == pytest.approx(returns_of(undisturbed))


def test_without_retries_they_fail_and_say_what_happened(tmp_path: Path, undisturbed: Any) -> None:
    outcome = killed(tmp_path, "failed", max_failures=0)
    assert len(outcome.failures) == 2
    assert all("process has died" in cause for _, cause in outcome.failures)
    errors = [path.read_text() for path in (tmp_path / "failed").glob("*/error.txt")]
    assert len(errors) == 2 and all("class_name: Host" in text for text in errors)
    whole = {key: own for key, own in rows(outcome).items() if own[-1].get("done")}
    assert len(whole) == 2
    expected = returns_of(undisturbed)
    assert returns_of(whole) == pytest.approx({key: expected[key] for key in whole})


def test_a_trial_that_raises_fails_alone(tmp_path: Path, undisturbed: Any) -> None:
    outcome = swept(
        tmp_path,
        "raising",
        trainable="hosted_faults:Fails",
        config={"fail_at": 3},
        max_failures=0,
    )
    assert [cause for _, cause in outcome.failures] == ["ValueError: no more of it"] * 2
    expected = returns_of(undisturbed)
    for key, own in rows(outcome).items():
        if key[1] == 1:
            assert len(own) == 2
        else:
            assert own[-1][RETURN] == pytest.approx(expected[key])
