"""PPO on CartPole with RLlib; runs in the peers' virtual environment (see README.md).

It knows three tasks, which the drivers beside it start; the last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from typing import Any

# Before Ray starts: workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

import ray
import torch
from ray import tune
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

RETURN = "env_runners/episode_return_mean"
STEPS = "num_env_steps_sampled_lifetime"


def equal(seed: int) -> PPOConfig:
    """The settings that `throughput.py` gives everyone: 32 slots, sampled in process."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=32, rollout_fragment_length=64)
        .training(
            train_batch_size_per_learner=2048,
            num_epochs=6,
            minibatch_size=256,
            lr=3e-4,
            gamma=0.99,
            lambda_=0.95,
            clip_param=0.2,
            vf_loss_coeff=0.5,
            entropy_coeff=0.0,
            use_kl_loss=False,
            grad_clip=0.5,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
            )
        )
        .debugging(seed=seed, log_level="ERROR")
    )


def tuned(seed: int) -> PPOConfig:
    """RLlib's own tuned settings for CartPole-v1, sampled in process.

    They leave open how many slots to step together; 16 reached the score soonest of 1, 8, 16, 32.
    """
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16)
        .training(lr=0.0003, num_epochs=6, vf_loss_coeff=0.01)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True
            )
        )
        .debugging(seed=seed, log_level="ERROR")
    )


def throughput(steps: int, warmup: int, seed: int) -> dict[str, Any]:
    """Environment steps per second of sampling and learning, after a warm-up."""
    algo = equal(seed).build_algo()
    done = 0
    while done < warmup:
        done = algo.train()[STEPS]
    first, start = done, time.perf_counter()
    while done - first < steps:
        done = algo.train()[STEPS]
    seconds = time.perf_counter() - start
    algo.stop()
    done -= first
    return {"env_steps": int(done), "seconds": seconds, "env_steps_per_second": done / seconds}


def time_to_score(target: float, cap: float, seed: int) -> dict[str, Any]:
    """Seconds until the mean return of the last 100 training episodes reaches `target`."""
    begin = time.perf_counter()
    algo = tuned(seed).build_algo()
    start = time.perf_counter()
    value, result = float("nan"), {}
    while not value >= target and time.perf_counter() - start < cap:
        result = algo.train()
        value = result["env_runners"].get("episode_return_mean", float("nan"))
    end = time.perf_counter()
    algo.stop()
    return {
        "reached": bool(value >= target),
        "seconds": end - start,
        "setup_seconds": start - begin,
        "env_steps": int(result.get(STEPS, 0)),
        "return": float(value),
    }


def sweep(trials: int, steps: int, seed: int) -> dict[str, Any]:
    """Seconds of a random search over the learning rate under Tune, two trials at a time."""
    config = equal(seed).training(lr=tune.loguniform(1e-4, 1e-2))
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as storage:
        tuner = tune.Tuner(
            PPO,
            param_space=config,
            tune_config=tune.TuneConfig(
                num_samples=trials, max_concurrent_trials=2, metric=RETURN, mode="max"
            ),
            run_config=tune.RunConfig(
                name="rllib", storage_path=storage, stop={STEPS: steps}, verbose=0
            ),
        )
        grid = tuner.fit()
        seconds = time.perf_counter() - begin
        rows = [grid[i].metrics or {} for i in range(len(grid))]
    return {
        "seconds": seconds,
        "trials": len(grid),
        "errors": grid.num_errors,
        "env_steps": sum(int(row[STEPS]) for row in rows),
        "best": float(max(row["env_runners"]["episode_return_mean"] for row in rows)),
    }


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=["throughput", "time-to-score", "sweep"])
    parser.add_argument("--steps", type=int, default=61_440, help="environment steps to measure")
    parser.add_argument("--warmup", type=int, default=8_192, help="environment steps before that")
    parser.add_argument("--target", type=float, default=450.0, help="return to reach")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds after which to give up")
    parser.add_argument("--trials", type=int, default=8, help="trials of the sweep")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    begin = time.perf_counter()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray_seconds = time.perf_counter() - begin
    try:
        if args.task == "throughput":
            result = throughput(args.steps, args.warmup, args.seed)
        elif args.task == "time-to-score":
            result = time_to_score(args.target, args.cap, args.seed)
        else:
            result = sweep(args.trials, args.steps, args.seed)
    finally:
        ray.shutdown()
    head = {"contestant": "rllib", "task": args.task, "seed": args.seed}
    print(json.dumps({**head, "ray_init_seconds": ray_seconds, **result}))


if __name__ == "__main__":
    main()
