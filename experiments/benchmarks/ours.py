"""PPO on CartPole with Tunescape itself.

It knows three tasks, which the drivers beside it start; the last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from typing import Any

from trainables import PPO, Algorithm

RETURN = "episode_return_mean"
STEPS = "num_env_steps_sampled_lifetime"

EQUAL: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_envs_per_env_runner": 32,
    "train_batch_size_per_learner": 2048,
    "num_epochs": 6,
    "minibatch_size": 256,
    "lr": 3e-4,
    "gamma": 0.99,
    "lambda_": 0.95,
    "clip_param": 0.2,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": 0.0,
    "grad_clip": 0.5,
    "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False},
}
"""The settings that `throughput.py` gives everyone: 32 slots, 64 steps."""

BEST: dict[str, Any] = {
    **EQUAL,
    "train_batch_size_per_learner": 1024,
    "num_epochs": 4,
    "lr": [[0, 2.5e-3], [90_000, 2.5e-4]],
    "gamma": 0.98,
    "lambda_": 0.9,
}
"""What reaches a return of 450 soonest here (the same coarse search by hand as the bare loop's)."""


def throughput(steps: int, warmup: int, seed: int) -> dict[str, Any]:
    """Environment steps per second of sampling and learning, after a warm-up."""
    ppo: Algorithm = PPO(config={**EQUAL, "seed": seed})
    done = 0
    while done < warmup:
        done = ppo.train()[STEPS]
    first, start = done, time.perf_counter()
    while done - first < steps:
        done = ppo.train()[STEPS]
    seconds = time.perf_counter() - start
    ppo.stop()
    done -= first
    return {"env_steps": done, "seconds": seconds, "env_steps_per_second": done / seconds}


def time_to_score(target: float, cap: float, seed: int) -> dict[str, Any]:
    """Seconds until the mean return of the last 100 training episodes reaches `target`."""
    begin = time.perf_counter()
    ppo: Algorithm = PPO(config={**BEST, "seed": seed})
    start = time.perf_counter()
    reached, result = False, {}
    while not reached and time.perf_counter() - start < cap:
        result = ppo.train()
        reached = result["num_episodes_lifetime"] >= 100 and result[RETURN] >= target
    end = time.perf_counter()
    ppo.stop()
    return {
        "reached": reached,
        "seconds": end - start,
        "setup_seconds": start - begin,
        "env_steps": result.get(STEPS, 0),
        "return": result.get(RETURN, float("nan")),
    }


def sweep(trials: int, steps: int, seed: int, *, together: bool = False) -> dict[str, Any]:
    """Seconds of a random search over the learning rate under Tune on two CPUs.

    Args:
        trials: How many.
        steps: Environment steps of each.
        seed: Of all.
        together: Whether trials are trained together in two processes, or two at a time.
    """
    from ray import tune

    from experiments.cluster.session import ray_session, sweep_environment
    from experiments.running.batched import batched
    from experiments.spec.schema import Resources

    logging.getLogger("ray").setLevel(logging.ERROR)
    before_ray = time.perf_counter()
    with (
        sweep_environment(),
        ray_session(Resources(num_cpus=2)),
        tempfile.TemporaryDirectory() as storage,
    ):
        begin = time.perf_counter()
        tuner = tune.Tuner(
            PPO,
            param_space={**EQUAL, "lr": tune.loguniform(1e-4, 1e-2), "seed": seed},
            tune_config=tune.TuneConfig(
                num_samples=trials,
                max_concurrent_trials=None if together else 2,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name="ours", storage_path=storage, stop={STEPS: steps}, verbose=0
            ),
        )
        grid = (batched(tuner) if together else tuner).fit()
        end = time.perf_counter()
        rows = [grid[i].metrics or {} for i in range(len(grid))]
    return {
        "seconds": end - begin,
        "seconds_with_ray": end - before_ray,
        "trials": len(grid),
        "errors": grid.num_errors,
        "env_steps": sum(int(row[STEPS]) for row in rows),
        "best": max(row[RETURN] for row in rows),
    }


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=["throughput", "time-to-score", "sweep"])
    parser.add_argument("--steps", type=int, default=61_440, help="environment steps to measure")
    parser.add_argument("--warmup", type=int, default=8_192, help="environment steps before that")
    parser.add_argument("--target", type=float, default=450.0, help="return to reach")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds after which to give up")
    parser.add_argument("--trials", type=int, default=8, help="trials of the sweep")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--together", action="store_true", help="train trials of it together")
    args = parser.parse_args()
    if args.task == "throughput":
        result = throughput(args.steps, args.warmup, args.seed)
    elif args.task == "time-to-score":
        result = time_to_score(args.target, args.cap, args.seed)
    else:
        result = sweep(args.trials, args.steps, args.seed, together=args.together)
    print(json.dumps({"contestant": "ours", "task": args.task, "seed": args.seed, **result}))


if __name__ == "__main__":
    main()
