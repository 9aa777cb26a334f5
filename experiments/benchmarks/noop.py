"""A trainable that does nothing, for what a sweep costs besides training."""

from __future__ import annotations

import time
from typing import Any

from ray import tune


class NoOp(tune.Trainable):
    """Reports `x` times its iteration; an iteration lasts `seconds`, by default none."""

    def setup(self, config: dict[str, Any]) -> None:
        """Starts counting."""
        self.count = 0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Starts counting again, in the same process."""
        self.config, self.count = new_config, 0
        return True

    def step(self) -> dict[str, Any]:
        """One result."""
        time.sleep(self.config.get("seconds", 0))
        self.count += 1
        return {
            "episode_return_mean": self.config.get("x", 0.0) * self.count,
            "num_env_steps_sampled_lifetime": 100 * self.count,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Keeps the count."""
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Takes the count back."""
        self.count = checkpoint["count"]
