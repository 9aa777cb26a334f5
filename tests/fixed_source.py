"""DQN from a fixed source of transitions, without an environment."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables import DQN, DQNConfig
from trainables.core.data.batch import Batch
from trainables.runtime.replay.experience import Experience

NUM_ROWS = 4000


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

    num_steps, num_added, nbytes = 0, 0, 0

    def __init__(self, rows: dict[str, np.ndarray], seed: np.random.SeedSequence):
        self.rows, self.rng = rows, np.random.default_rng(seed)
        self.num_steps = len(rows["actions"])

    def sample(self, batch_size: int, num_batches: int = 1, **options: Any) -> Batch:
        ids = self.rng.integers(self.num_steps, size=batch_size * num_batches)
        drawn = {name: column[ids] for name, column in self.rows.items()}
        discounts = np.float32(options["gamma"]) * ~drawn.pop("terminated")
        columns = {**drawn, "ids": ids, "discounts": discounts, "weights": np.ones_like(discounts)}
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def num_sequences(self, length: int) -> int:
        return 0

    def sample_sequences(self, batch_size: int, length: int, **options: Any) -> Batch:
        raise AssertionError("it has none")

    def update(self, ids: Tensor, columns: Batch) -> None:
        raise AssertionError(f"its rows never change: {list(columns)}")

    def clear(self) -> None:
        """Nothing was added."""

    def reseed(self, seed: np.random.SeedSequence) -> None:
        self.rng = np.random.default_rng(seed)

    def get_state(self) -> dict[str, Any]:
        return {"rng": self.rng.bit_generator.state}

    def check_state(self, state: dict[str, Any]) -> None:
        np.random.default_rng().bit_generator.state = state["rng"]

    def set_state(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = state["rng"]


@dataclass
class OfflineConfig(DQNConfig):
    needs_env = False


class OfflineDQN(DQN):
    config_class = OfflineConfig

    def make_experience(self, module_id: str, policy: Any, seed: Any) -> Experience:
        return FixedSource(transitions(), seed)
