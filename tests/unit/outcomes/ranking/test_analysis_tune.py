"""The analysis over what Tune itself writes: a real sweep of a trainable that only counts."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune
from small_ray import only_the_needed

from analysis import (
    best_checkpoint,
    curves_frame,
    export_best,
    leaderboard,
    load_sweep,
    trials_frame,
)
from experiments.workers.warm import warm_workers

# A worker cannot import a test module.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

# Iteration 2 is the peak of every trial; iteration 3 is NaN.
SHAPE = [1.0, 5.0, float("nan"), 2.0]


class Counter(tune.Trainable):
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True

    def step(self) -> dict[str, Any]:
        if self.config["fails"] and self.iteration == 1:
            raise RuntimeError("broken on purpose")
        value = SHAPE[self.iteration] * self.config["scale"]
        return {"score": value, "num_env_steps_sampled_lifetime": 100 * (self.iteration + 1)}

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        folder = Path(checkpoint_dir, "policies", "default_policy")
        folder.mkdir(parents=True)
        metadata = {"num_env_steps_sampled_lifetime": 100 * self.iteration}
        content = {"state": {"metadata": metadata}}
        (folder / "policy.json").write_text(json.dumps(content))
        return checkpoint_dir

    def load_checkpoint(self, checkpoint: dict | None) -> None:
        pass


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tune.ResultGrid]:
    started_here = not ray.is_initialized()
    if started_here:
        with warm_workers(), only_the_needed():
            ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    tuner = tune.Tuner(
        Counter,
        param_space={"scale": tune.grid_search([1.0, 3.0, 2.0]), "fails": False, "net": {"w": 8}},
        tune_config=tune.TuneConfig(max_concurrent_trials=2, reuse_actors=True),
        run_config=tune.RunConfig(
            name="count",
            storage_path=str(tmp_path_factory.mktemp("runs")),
            stop={"training_iteration": 4},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
            verbose=0,
        ),
    )
    yield tuner.fit()
    if started_here:
        ray.shutdown()


@pytest.mark.parametrize("how", ["grid", "folder", "moved"])
def test_grid_and_folder_say_the_same(grid: tune.ResultGrid, tmp_path: Path, how: str) -> None:
    results: Any = grid
    if how == "folder":
        results = grid.experiment_path
    if how == "moved":
        results = shutil.copytree(grid.experiment_path, tmp_path / "count")

    board = leaderboard(results, "score", "max")
    assert board["config/scale"].tolist() == [3.0, 2.0, 1.0]
    assert board["best"].tolist() == [15.0, 10.0, 5.0]
    assert board["last"].tolist() == [6.0, 4.0, 2.0]
    assert board["best_iteration"].tolist() == [2, 2, 2]
    assert board["status"].tolist() == ["TERMINATED"] * 3
    assert [c for c in board if c.startswith("config/")] == ["config/scale"]

    trials = trials_frame(results)
    assert trials["config/scale"].tolist() == [1.0, 3.0, 2.0]
    assert trials["config/net/w"].tolist() == [8, 8, 8]
    assert trials["num_env_steps_sampled_lifetime"].tolist() == [400] * 3
    assert curves_frame(results)["training_iteration"].tolist() == [1, 2, 3, 4] * 3

    best = best_checkpoint(results, "score", "max")
    assert best.value == 15.0
    assert best.trial.trial_id == trials["trial_id"][1]
    assert best.metrics["training_iteration"] == 2
    out = export_best(results, tmp_path / "best", "score", "max")
    exported = json.loads((out / "export.json").read_text())
    assert exported["num_env_steps_sampled_lifetime"] == 200
    assert exported["config"] == {"scale": 3.0, "fails": False, "net": {"w": 8}}
    assert json.loads((out / "policy.json").read_text()) == {
        "state": {"metadata": {"num_env_steps_sampled_lifetime": 200}}
    }


def test_a_grid_knows_checkpoints_that_do_not_say(grid: tune.ResultGrid, tmp_path: Path) -> None:
    moved = shutil.copytree(grid.experiment_path, tmp_path / "count")
    for file in moved.glob("*/checkpoint_*/policies/default_policy/policy.json"):
        file.write_text("{}")
    assert not [c for trial in load_sweep(moved).trials for c in trial.checkpoints]
    offline = tune.ResultGrid(tune.ExperimentAnalysis(str(moved)))
    best = best_checkpoint(offline, "score", "max")
    assert best.value == 15.0
    assert best.path.is_relative_to(moved)


def test_a_grid_passes_over_checkpoints_that_were_deleted(
    grid: tune.ResultGrid, tmp_path: Path
) -> None:
    moved = shutil.copytree(grid.experiment_path, tmp_path / "count")
    offline = tune.ResultGrid(tune.ExperimentAnalysis(str(moved)))
    shutil.rmtree(best_checkpoint(offline, "score", "max").path)
    # Still of the first trial of the leaderboard, though another's best is 10.
    assert best_checkpoint(offline, "score", "max").value == 6.0


def test_failed_trials_are_in_the_frames(tmp_path: Path, grid: tune.ResultGrid) -> None:
    failing = tune.Tuner(
        Counter,
        param_space={"scale": 1.0, "fails": tune.grid_search([True, False]), "net": {}},
        tune_config=tune.TuneConfig(max_concurrent_trials=2, reuse_actors=True),
        run_config=tune.RunConfig(
            name="failing", storage_path=str(tmp_path), stop={"training_iteration": 2}, verbose=0
        ),
    ).fit()
    for results in (failing, failing.experiment_path):
        board = leaderboard(results, "score", "max")
        assert board["status"].tolist() == ["TERMINATED", "ERROR"]
        assert board["best"].tolist() == [5.0, 1.0]
