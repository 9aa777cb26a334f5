"""Environments and classes as a user of the reference writes them, which actors find by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from ray.tune import PlacementGroupFactory

from trainables import PPO, DefaultCallbacks
from trainables.runtime.envs.curriculum import TaskSettableEnv


class Corridor(gym.Env):
    """Walk to the end of a corridor; its length is in the context."""

    def __init__(self, config: Any):
        self.end = config.get("corridor_length", 5)
        self.context = config
        self.position = 0
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float32)

    def _observation(self) -> np.ndarray:
        return np.array([self.position], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position = 0
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        self.position = max(self.position + (1 if action == 1 else -1), 0)
        ended = self.position >= self.end
        return self._observation(), 1.0 if ended else -0.1, ended, False, {}

    def render(self) -> None:
        pass


class Curriculum(TaskSettableEnv, Corridor):
    """The same with tasks: corridors of more and more steps."""

    def set_task(self, task: int) -> None:
        super().set_task(task)
        self.end = task

    def get_task(self) -> int:
        return self.end


def next_task(train_results: dict[str, Any], task_settable_env: Any, env_ctx: Any) -> int:
    """A longer corridor each time."""
    return 2 + int(train_results["training_iteration"])


class CustomMetrics(DefaultCallbacks):
    """The pole's angle at each step, as the documents' example has it."""

    def on_episode_start(
        self,
        *,
        worker: Any,
        base_env: Any,
        policies: Any,
        episode: Any,
        env_index: int,
        **kwargs: Any,
    ) -> None:
        assert episode.length == 0
        episode.user_data["pole_angles"] = []
        episode.hist_data["pole_angles"] = []

    def on_episode_step(self, *, worker: Any, base_env: Any, episode: Any, **kwargs: Any) -> None:
        episode.user_data["pole_angles"].append(abs(float(episode.last_observation[2])))

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        episode.custom_metrics["pole_angle"] = np.mean(episode.user_data["pole_angles"])
        episode.hist_data["pole_angles"] = episode.user_data["pole_angles"]

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        result["callback_ok"] = True


class Own(PPO):
    """Counts what it overrides."""

    @classmethod
    def default_resource_request(cls, config: Any) -> PlacementGroupFactory:
        return PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])

    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        self.num_own_steps = 0

    def training_step(self) -> dict[str, Any]:
        self.num_own_steps += 1
        return {**super().training_step(), "num_own_steps": self.num_own_steps}

    def step(self) -> dict[str, Any]:
        return {**super().step(), "stepped": 1}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        super().save_checkpoint(checkpoint_dir)
        Path(checkpoint_dir, "own.txt").write_text(str(self.num_own_steps))

    def load_checkpoint(self, checkpoint: Any) -> None:
        super().load_checkpoint(checkpoint)
        self.num_own_steps = int(Path(checkpoint, "own.txt").read_text())
