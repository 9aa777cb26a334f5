"""Algorithms on an environment whose actions are nested: every leaf is learned for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from trainables import DQN, PPO, SAC, Policy
from trainables.core.errors import ConfigError

Box, Dict, Tuple, Discrete = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Tuple, gym.spaces.Discrete

MIXED = Dict(
    [
        ("z", Discrete(3, start=-1)),
        ("a", Tuple([Box(0, 4, (1,)), gym.spaces.MultiBinary(2)])),
        ("steps", Box(-2, 2, (1,), np.int8)),
    ]
)
BOXES = Dict([("z", Box(0, 4, (1,))), ("a", Tuple([Box(-1, 1, (1,), np.float64)]))])


class Target(gym.Env[Any, Any]):
    """The reward is higher the more leaves of the action are as wanted; 0 if all are."""

    observation_space = Box(0, 1)

    def __init__(self, action_space: gym.Space):
        self.action_space = action_space

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        return np.ones(1, np.float32), -distance(action), False, self.steps == 8, {}


def distance(action: dict[str, Any]) -> float:
    """Of an action of MIXED or BOXES to what is wanted."""
    if "steps" in action:
        x, bits = action["a"]
        wrong = (action["z"] != 1) + (bits != [1, 0]).sum() + abs(int(action["steps"][0]) - 2) / 2
        return float(wrong + abs(x[0] - 3))
    return float(abs(action["z"][0] - 3) / 4 + abs(action["a"][0][0] + 0.5) / 2)


SMALL: dict[str, Any] = {"num_envs_per_env_runner": 8, "seed": 0, "model": {"fcnet_hiddens": [8]}}


def test_every_leaf_of_a_nested_action_is_learned(tmp_path: Path) -> None:
    settings = {
        "train_batch_size_per_learner": 256,
        "minibatch_size": 64,
        "num_epochs": 8,
        "lr": 0.02,
    }
    with PPO(SMALL | settings | {"env": lambda config: Target(MIXED)}) as algo:
        first = algo.train()["episode_return_mean"]
        for _ in range(10):
            last = algo.train()["episode_return_mean"]
        assert last > 0.7 * first
        obs = np.ones(1, np.float32)
        best = algo.compute_single_action(obs, explore=False)
        assert MIXED.contains(best) and distance(best) < 0.5, best
        algo.save(tmp_path)
    policy = Policy.load(tmp_path / "policies" / "default_policy")
    again = policy.compute_single_action(obs, explore=False)
    assert again["z"] == best["z"] and again["a"][0] == best["a"][0]
    assert (again["a"][1] == best["a"][1]).all() and again["steps"] == best["steps"]


@pytest.mark.full("test_every_leaf_of_a_nested_action_is_learned")
def test_soft_actor_critic_learns_nested_boxes() -> None:
    settings = {
        "env": lambda config: Target(BOXES),
        "num_steps_sampled_before_learning_starts": 64,
        "train_batch_size_per_learner": 64,
        "lr": 0.01,
        "gamma": 0.0,
        "initial_alpha": 0.01,
    }
    with SAC(SMALL | settings) as algo:
        for _ in range(50):
            algo.training_step()
        obs = np.ones(1, np.float32)
        assert BOXES.contains(algo.compute_single_action(obs))
        assert distance(algo.compute_single_action(obs, explore=False)) < 0.2


def test_what_has_no_nested_actions_says_so() -> None:
    for algorithm, why in ((DQN, "compares the values of all actions"), (SAC, "at 'z' is not")):
        with pytest.raises(ConfigError, match=rf"(?s)action space .*{why}.*PPO takes every space"):
            algorithm(SMALL | {"env": lambda config: Target(MIXED)})
