"""Algorithms with settings that make one iteration a matter of milliseconds."""

from __future__ import annotations

from typing import Any

import ray

from trainables import PPO

SMALL: dict[str, dict[str, Any]] = {
    "PPO": {
        "train_batch_size_per_learner": 256,
        "num_envs_per_env_runner": 4,
        "num_epochs": 2,
        "minibatch_size": 64,
        "use_kl_loss": True,
    },
}
# What differs between two runs by nature.
CLOCKS = {
    "date",
    "timestamp",
    "time_this_iter_s",
    "time_total_s",
    "time_since_restore",
    "iterations_since_restore",
    "timesteps_since_restore",
    "env_steps_per_second",
    "trial_id",
    "pid",
}


def settings_of(name: str, env: Any = "CartPole-v1", **more: Any) -> dict[str, Any]:
    return {"env": env, "seed": 3, **SMALL[name], **more}


def without_clocks(result: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in result.items() if k not in CLOCKS and not k.startswith("time/")}


class Placed(PPO):
    """Reports where its processes run."""

    def training_step(self) -> dict[str, float]:
        def place(runner: Any) -> tuple[str | None, list[int]]:
            return ray.get_runtime_context().get_placement_group_id(), list(ray.get_gpu_ids())

        placed = self.env_runners.foreach_env_runner(place)
        own, my_gpus = place(None)
        return super().training_step() | {
            "in_my_group": float(all(group == own for group, _ in placed)),
            "my_gpus": float(len(my_gpus)),
            "runner_gpus": float(sum(len(gpus) for _, gpus in placed)),
        }
