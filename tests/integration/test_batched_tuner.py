"""Tune's own Tuner, and trials of several seeds, in the processes that trials share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray import tune

from experiments.running.batched import batched
from experiments.running.runner import run_sweep
from experiments.seeds.multi_seed import with_seeds
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from trainables import BC, DQN, PPO
from trainables.core.errors import ConfigError

RETURN, STEPS = "episode_return_mean", "num_env_steps_sampled_lifetime"
SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_envs_per_env_runner": 8,
    "train_batch_size_per_learner": 256,
    "minibatch_size": 64,
    "num_epochs": 2,
}
SPACE = {**SETTINGS, "lr": 1e-3, "seed": tune.grid_search([0, 1, 2, 3, 4])}


def tuner(tmp_path: Path, trainable: Any = PPO, space: Any = None, **config: Any) -> tune.Tuner:
    return tune.Tuner(
        trainable,
        param_space=space or SPACE,
        tune_config=tune.TuneConfig(**config),
        run_config=tune.RunConfig(
            name="t", storage_path=str(tmp_path), stop={"training_iteration": 2}, verbose=0
        ),
    )


def alone(seed: int, iterations: int) -> float:
    algo = PPO(config={**SETTINGS, "lr": 1e-3, "seed": seed})
    value = [algo.train()[RETURN] for _ in range(iterations)][-1]
    algo.stop()
    return float(value)


@pytest.mark.usefixtures("ray_here")
def test_a_tuner_whose_trials_share_processes(tmp_path: Path) -> None:
    own = tuner(tmp_path, reuse_actors=True)
    grid = batched(own).fit()
    assert grid.num_errors == 0
    rows = [result.metrics for result in grid]
    assert {row["config"]["seed"]: row[RETURN] for row in rows} == pytest.approx(
        {seed: alone(seed, 2) for seed in range(5)}
    )
    assert {row["host"] for row in rows} == {0, 1}
    assert len({row["pid"] for row in rows}) == 2
    # A Tuner that was restored is one as well; here nothing is left to do.
    restored = tune.Tuner.restore(str(tmp_path / "t"), trainable=PPO)
    assert len(batched(restored).fit()) == 5


@pytest.mark.usefixtures("ray_here")
def test_seeds_of_several_trials_learn_together(tmp_path: Path) -> None:
    space = {**SETTINGS, "lr": tune.grid_search([1e-3, 2e-3])}
    grid = batched(tuner(tmp_path, with_seeds(PPO, 3, batched=True), space)).fit()
    assert grid.num_errors == 0
    row = next(r.metrics for r in grid if r.metrics["config"]["lr"] == 1e-3)
    for seed in range(3):
        assert row[f"seed_{seed}/{RETURN}"] == pytest.approx(alone(seed, 2))


@pytest.mark.usefixtures("ray_here")
def test_seeds_of_one_trial_are_dealt_to_the_processes(tmp_path: Path) -> None:
    data = {
        "name": "dealt",
        "trainable": "PPO",
        "config": SETTINGS,
        "search_space": {"lr": {"grid": [1e-3]}},
        "seeds": 4,
        "stop": {STEPS: 700},
        "trial_batching": "auto",
        "checkpoint": {"at_end": True},
        "storage": str(tmp_path),
        "mlflow": {"enabled": False},
    }
    sweep = Sweep.of(make_spec(data))
    assert sweep.trainable.parallel == 2
    outcome = run_sweep(sweep)
    assert not outcome.failures
    [result] = outcome.results
    assert result.metrics["training_iteration"] == 3
    for seed in range(4):
        assert result.metrics[f"seed_{seed}/{RETURN}"] == pytest.approx(alone(seed, 3))
        assert (Path(result.checkpoint.path) / f"seed_{seed}").is_dir()


@pytest.mark.usefixtures("ray_here")
def test_a_trial_that_asks_for_something_else_is_told(tmp_path: Path) -> None:
    space = {**SPACE, "num_env_runners": tune.grid_search([0, 1])}
    with pytest.raises(ConfigError, match=r"a trial asks for .*, and the processes that trials"):
        batched(tuner(tmp_path, space=space)).fit()


def test_what_is_not_trained_together_is_refused(tmp_path: Path) -> None:
    def refused(trainable: Any, space: Any = None, **config: Any) -> str:
        with pytest.raises(ConfigError) as error:
            batched(tuner(tmp_path, trainable, space, **config))
        return str(error.value)

    assert "updates of BC are not written for several trials" in refused(BC)
    memory = {**SPACE, "model": {"use_lstm": True}}
    assert "trials are not trained together: " in refused(PPO, memory)
    runners = {**SPACE, "num_env_runners": 1}
    assert "a trial has 2 processes" in refused(PPO, runners)
    assert "parallel = 2" in refused(with_seeds(PPO, 3, parallel=2), SETTINGS)
    assert "batched=True" in refused(with_seeds(DQN, 3), SETTINGS)
    own = tuner(tmp_path)
    own._local_tuner._run_config.log_to_file = True  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="log_to_file"):
        batched(own)
    changing = tune.schedulers.ResourceChangingScheduler()
    assert "ResourceChangingScheduler" in refused(PPO, scheduler=changing)
