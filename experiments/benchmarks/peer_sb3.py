"""PPO on CartPole with Stable-Baselines3; runs in the peers' virtual environment (see README.md).

It knows two tasks, which the drivers beside it start; the last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from torch import nn

EQUAL: dict[str, Any] = {
    "n_steps": 64,
    "n_epochs": 6,
    "batch_size": 256,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "vf_coef": 0.5,
    "ent_coef": 0.0,
    "max_grad_norm": 0.5,
    "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": nn.Tanh},
}
"""The settings that `throughput.py` gives everyone, with 32 slots."""

ZOO: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
    "learning_rate": lambda remaining: 0.001 * remaining,
    "clip_range": lambda remaining: 0.2 * remaining,
}
"""RL-Zoo3's tuned settings for CartPole-v1, with 8 slots over 100,000 steps."""


class Meter(BaseCallback):
    """Notes when the warm-up ended, and ends the run at a step count, a score or a time."""

    def __init__(
        self, *, warmup: int = 0, target: float | None = None, cap: float = float("inf")
    ) -> None:
        super().__init__()
        self.warmup, self.target, self.cap = warmup, target, cap
        self.started = 0.0
        self.warm_at, self.warm_steps = 0.0, 0
        self.reached = False

    def _on_training_start(self) -> None:
        self.started = time.perf_counter()

    def _on_rollout_start(self) -> None:
        if not self.warm_at and self.num_timesteps >= self.warmup:
            self.warm_at, self.warm_steps = time.perf_counter(), self.num_timesteps

    def _on_rollout_end(self) -> None:
        if self.target is not None:
            self.reached = mean_return(self.model) >= self.target

    def _on_step(self) -> bool:
        return not self.reached and time.perf_counter() - self.started < self.cap


def mean_return(model: Any) -> float:
    """The mean return of the last 100 training episodes; NaN before there are 100."""
    episodes = model.ep_info_buffer or ()
    return float(np.mean([e["r"] for e in episodes])) if len(episodes) == 100 else float("nan")


def throughput(steps: int, warmup: int, seed: int) -> dict[str, Any]:
    """Environment steps per second of sampling and learning, after a warm-up."""
    env = make_vec_env("CartPole-v1", n_envs=32, seed=seed)
    model = PPO("MlpPolicy", env, seed=seed, device="cpu", **EQUAL)
    meter = Meter(warmup=warmup)
    model.learn(steps + warmup, callback=meter)
    seconds = time.perf_counter() - meter.warm_at
    done = model.num_timesteps - meter.warm_steps
    return {"env_steps": done, "seconds": seconds, "env_steps_per_second": done / seconds}


def time_to_score(target: float, cap: float, seed: int) -> dict[str, Any]:
    """Seconds until the mean return of the last 100 training episodes reaches `target`."""
    begin = time.perf_counter()
    env = make_vec_env("CartPole-v1", n_envs=8, seed=seed)
    model = PPO("MlpPolicy", env, seed=seed, device="cpu", **ZOO)
    meter = Meter(target=target, cap=cap)
    start = time.perf_counter()
    # A run that misses within its 100,000 steps is over: the schedules have ended at zero.
    model.learn(100_000, callback=meter)
    end = time.perf_counter()
    return {
        "reached": meter.reached,
        "seconds": end - start,
        "setup_seconds": start - begin,
        "env_steps": model.num_timesteps,
        "return": mean_return(model),
    }


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=["throughput", "time-to-score"])
    parser.add_argument("--steps", type=int, default=61_440, help="environment steps to measure")
    parser.add_argument("--warmup", type=int, default=8_192, help="environment steps before that")
    parser.add_argument("--target", type=float, default=450.0, help="return to reach")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds after which to give up")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.task == "throughput":
        result = throughput(args.steps, args.warmup, args.seed)
    else:
        result = time_to_score(args.target, args.cap, args.seed)
    print(json.dumps({"contestant": "sb3", "task": args.task, "seed": args.seed, **result}))


if __name__ == "__main__":
    main()
