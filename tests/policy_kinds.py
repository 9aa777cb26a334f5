"""Every kind of policy on an environment that keeps a diary of what it was shown and given."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np

Box, Discrete, Dict, Tuple = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.Dict, gym.spaces.Tuple

SPACES: dict[str, gym.Space] = {
    "vector": Box(-2, 2, (4,), np.float32),
    "image": Box(0, 255, (16, 16, 3), np.uint8),
    "nested": Dict(
        {
            "action_mask": gym.spaces.MultiBinary(4),
            "camera": Dict({"rgb": Box(0, 255, (16, 16, 3), np.uint8)}),
            "parts": Tuple([Box(-2, 2, (2,), np.float32), Discrete(3, start=1)]),
        }
    ),
}
ACTIONS: dict[str, gym.Space] = {
    "discrete": Discrete(4),
    "box": Box(-3, 1, (2,), np.float32),
    "single_box": Box(-2, 2, (1,), np.float32),
    "joint": Dict({"go": Discrete(4), "by": Box(-1, 1, (2,), np.float32)}),
}


class Step(NamedTuple):
    """One line of the diary: what was shown, what was given back, what it earned."""

    obs: Any
    action: Any
    reward: float


class DiaryEnv(gym.Env):
    """Random observations and rewards; the actions of all episodes are kept in `diary`.

    Args:
        observations: A name in `SPACES`.
        actions: A name in `ACTIONS`.
    """

    diary: ClassVar[list[list[Step]]] = []

    def __init__(self, observations: str = "vector", actions: str = "discrete"):
        self.observation_space, self.action_space = SPACES[observations], ACTIONS[actions]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.length = 0, int(self.np_random.integers(4, 9))
        self.episode: list[Step] = []
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        reward = float(self.np_random.normal())
        self.episode.append(Step(self.obs, action, reward))
        if self.t == self.length:
            DiaryEnv.diary.append(self.episode)
        return self._observe(), reward, self.t == self.length, False, {}

    def _observe(self) -> Any:
        self.obs = self._draw(self.observation_space)
        return self.obs

    def _draw(self, space: gym.Space) -> Any:
        if isinstance(space, Dict):
            return {key: self._draw(part) for key, part in space.spaces.items()}
        if isinstance(space, Tuple):
            return tuple(self._draw(part) for part in space.spaces)
        if isinstance(space, Discrete):
            return int(self.np_random.integers(space.start, space.start + space.n))
        if isinstance(space, gym.spaces.MultiBinary):
            mask = self.np_random.integers(0, 2, space.shape, np.int8)
            mask[self.np_random.integers(len(mask))] = 1
            return mask
        assert isinstance(space, Box)
        drawn = self.np_random.uniform(space.low, space.high)
        return drawn.astype(space.dtype)


LSTM = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}
PREVIOUS = {"lstm_use_prev_action": True, "lstm_use_prev_reward": True}
NAME = "tests.connector_cases:"

# Settings of each kind of policy, by section.
KINDS: dict[str, dict[str, Any]] = {
    "vector": {},
    "box_actions": {"actions": "box"},
    "joint_actions": {"actions": "joint", "observations": "nested"},
    "image": {"observations": "image", "actions": "box"},
    "frames_and_connector": {
        "observations": "image",
        "actions": "box",
        "frame_stack": 3,
        "env_to_module_connector": f"{NAME}halved",
    },
    "nested_and_masked": {"observations": "nested", "observation_filter": "MeanStdFilter"},
    "lstm": {"model": LSTM},
    "lstm_with_previous": {"model": LSTM | PREVIOUS, "actions": "box"},
    "lstm_with_previous_joint": {
        "model": LSTM | PREVIOUS,
        "observations": "nested",
        "actions": "joint",
        "observation_filter": "MeanStdFilter",
    },
    "gru_nested_and_masked": {
        "observations": "nested",
        "model": {"use_gru": True, "lstm_cell_size": 8, "max_seq_len": 4, **PREVIOUS},
    },
    "attention": {
        "model": {
            "use_attention": True,
            "attention_dim": 8,
            "attention_head_dim": 8,
            "attention_memory_inference": 3,
            "max_seq_len": 4,
            "attention_use_n_prev_actions": 1,
        }
    },
    "connectors": {
        "env_to_module_connector": [f"{NAME}halved", {"type": f"{NAME}OnGrid", "cells": 3}],
        "module_to_env_connector": f"{NAME}rounded",
        "actions": "box",
    },
    "connectors_with_previous": {
        "module_to_env_connector": f"{NAME}Torques",
        "model": LSTM | PREVIOUS,
        "actions": "single_box",
    },
    "filtered": {"observation_filter": "MeanStdFilter"},
}
# Their actions go through functions that take nothing but numpy arrays.
NUMPY_KINDS = {"connectors", "connectors_with_previous"}
TRUST = [f"{NAME}{name}" for name in ("halved", "OnGrid", "rounded", "Torques")]


def settings_of(kind: str) -> dict[str, Any]:
    """What `PPOConfig.from_dict` takes."""
    given = dict(KINDS[kind])
    env_config = {name: given.pop(name) for name in ("observations", "actions") if name in given}
    given["model"] = {"fcnet_hiddens": [8], **given.get("model", {})}
    return {
        "env": DiaryEnv,
        "env_config": env_config,
        "num_envs_per_env_runner": 2,
        "train_batch_size_per_learner": 32,
        "minibatch_size": 16,
        "num_epochs": 1,
        "evaluation_duration": 20,  # one slot, several episodes
        "evaluation_duration_unit": "timesteps",
        "seed": 0,
        **given,
    }
