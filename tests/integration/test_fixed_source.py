"""DQN from a fixed source of transitions, without an environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray import tune

from trainables import DQN, Algorithm, DQNConfig
from trainables.core.data.batch import Batch
from trainables.runtime.replay.experience import Experience

NUM_ROWS, RETURN = 4000, "evaluation/episode_return_mean"


def transitions() -> dict[str, np.ndarray]:
    """Columns `[NUM_ROWS, …]` of random play on CartPole."""
    env, rng, rows = gym.make("CartPole-v1"), np.random.default_rng(0), []
    obs, _ = env.reset(seed=0)
    while len(rows) < NUM_ROWS:
        action = int(rng.integers(2))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((obs, action, np.float32(reward), terminated, next_obs))
        obs = env.reset()[0] if terminated or truncated else next_obs
    names = ("obs", "actions", "rewards", "terminated", "next_obs")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


class FixedSource(Experience):
    """Draws rows that never change, all equally likely, windows of one step."""

    def __init__(self, rows: dict[str, np.ndarray], seed: np.random.SeedSequence):
        self.rows, self.num_steps = rows, len(rows["actions"])
        self.num_added, self.nbytes = self.num_steps, sum(c.nbytes for c in rows.values())
        self.reseed(seed)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        self.rng = np.random.default_rng(seed)

    def sample(self, batch_size: int, num_batches: int = 1, *, gamma: float, **_: Any) -> Batch:
        ids = self.rng.integers(self.num_steps, size=batch_size * num_batches)
        drawn = {name: column[ids] for name, column in self.rows.items()}
        discounts = np.float32(gamma) * ~drawn.pop("terminated")
        columns = {**drawn, "ids": ids, "discounts": discounts, "weights": np.ones_like(discounts)}
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def get_state(self) -> dict[str, Any]:
        return {"rng": self.rng.bit_generator.state}

    def check_state(self, state: dict[str, Any]) -> None:
        assert state.keys() == {"rng"}

    def set_state(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = state["rng"]


@dataclass
class OfflineConfig(DQNConfig):
    needs_env = False


class OfflineDQN(DQN):
    config_class = OfflineConfig

    def make_experience(
        self, module_id: str, policy: Any, seed: np.random.SeedSequence
    ) -> Experience:
        return FixedSource(transitions(), seed)


SETTINGS: dict[str, Any] = {
    **{"seed": 1, "lr": 1e-3, "gamma": 0.98, "train_batch_size_per_learner": 64},
    **{"target_network_update_freq": 400, "model": {"fcnet_hiddens": [64, 64]}},
    **{"evaluation_config": {"env": "CartPole-v1"}, "evaluation_interval": 1},
    "min_train_timesteps_per_iteration": 64 * 500,
}


def test_it_learns_more_than_the_play_that_it_learns_from_and_resumes(tmp_path: Path) -> None:
    with OfflineDQN(config=SETTINGS) as whole:
        results = [whole.train() for _ in range(3)]
        saved = whole.save(str(tmp_path / "a"))
        expected, weights = whole.train(), whole.get_weights()["default_policy"]
    assert max(result[RETURN] for result in results) > 100  # of random play: 22
    assert "episode_return_mean" not in expected and expected["num_updates_lifetime"] == 2000
    with Algorithm.from_checkpoint(saved, trust=["test_fixed_source:OfflineDQN"]) as resumed:
        assert resumed.train()[RETURN] == expected[RETURN]
        for name, value in resumed.get_weights()["default_policy"].items():
            assert np.array_equal(value, weights[name])


@pytest.mark.usefixtures("ray_here")
def test_under_tune(tmp_path: Path) -> None:
    run = tune.RunConfig(storage_path=str(tmp_path), stop={"num_updates_lifetime": 500}, verbose=0)
    results = tune.Tuner(OfflineDQN, param_space=SETTINGS, run_config=run).fit()
    assert not results.errors and results[0].metrics[RETURN] > 0
