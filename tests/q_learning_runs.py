"""Short runs of algorithms that learn action values from recorded data: CQL and IQL."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from trainables import Algorithm
from trainables.runtime.offline.episode import DataSpaces

SMALL: dict[str, Any] = {
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "train_batch_size_per_learner": 16,
    "lr": 1e-2,
}
# Few updates for a step: those that a rollout asks for by itself take seconds.
ONLINE: dict[str, Any] = {
    **SMALL,
    "env": "Pendulum-v1",
    "num_steps_sampled_before_learning_starts": 30,
    "min_sample_timesteps_per_iteration": 40,
    "training_intensity": 4.0,
}
PENDULUM = DataSpaces(
    gym.make("Pendulum-v1").observation_space, gym.make("Pendulum-v1").action_space
)


def on(data: Any, **more: Any) -> dict[str, Any]:
    """Settings of five updates on data, with others beside or instead."""
    return {**SMALL, "input_": data, "dataset_num_iters_per_learner": 5, **more}


def weights_of(algo: Algorithm) -> dict[str, np.ndarray]:
    """The weights of the only policy, by name."""
    weights: dict[str, np.ndarray] = algo.get_weights()["default_policy"]
    return weights
