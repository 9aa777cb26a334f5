"""PPO that really learns, and reports a return that is known beforehand.

For what a sweep does with the results of trials that share processes: those of `noop` cannot.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from trainables import PPO, PPOConfig
from trainables.core.config.settings import setting

STEPS = 100  # environment steps that an iteration counts

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": STEPS,
    "minibatch_size": STEPS // 2,
    "num_epochs": 1,
    "model": {"fcnet_hiddens": [8]},
}
"""Settings with which an iteration takes a few milliseconds."""


@dataclass
class ScriptedConfig(PPOConfig):
    """Says what is reported."""

    x: float = setting(1.0, "training", "return of the first iteration; of the n-th it is n times")
    seconds: float = setting(0.0, "debugging", "that an iteration lasts longer", ge=0)


class Scripted(PPO):
    """Reports `x` times its iteration, and `STEPS` times it as its steps."""

    config_class = ScriptedConfig

    def training_step(self) -> dict[str, float]:
        """Learns, and takes its time."""
        time.sleep(self.config.seconds)  # type: ignore[attr-defined]
        return super().training_step()

    def train(self) -> dict[str, Any]:
        """One result."""
        result = super().train()
        x = self.config.x  # type: ignore[attr-defined]
        scripted = {
            "episode_return_mean": x * self.iteration,
            "num_env_steps_sampled_lifetime": STEPS * self.iteration,
        }
        return {**result, **scripted}
