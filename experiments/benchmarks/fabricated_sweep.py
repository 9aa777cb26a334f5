"""A sweep folder of any size as a sweep of PPO leaves it, without the training."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LOSSES = (
    *("policy_loss", "vf_loss", "entropy", "approx_kl", "clip_fraction", "total_loss"),
    *("grad_norm", "vf_explained_var", "curr_lr", "curr_entropy_coeff"),
)
_STEPS = 2048
"""Environment steps of an iteration."""


def fabricate(folder: Path, *, trials: int, results: int, seed: int = 0) -> Path:
    """Writes a sweep: Tune's snapshot, and of each trial its results and its last checkpoint.

    The rows are those of PPO under Tune (45 columns, and the config in each), with random numbers
    of full length. The return grows with the learning rate's nearness to 1e-3; every 50th trial
    was resumed and wrote its last results twice.

    Args:
        folder: Is made.
        trials: How many.
        results: Rows of each.
        seed: Of the numbers.

    Returns:
        ``folder``.
    """
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    data = []
    for number in range(1, trials + 1):
        trial_id = f"{draw.getrandbits(32):08x}"
        path = folder / f"{number:04d}_{trial_id}"
        path.mkdir()
        config = _config(draw)
        rows = list(_rows(draw, trial_id, config, results))
        if number % 50 == 0:  # resumed from the checkpoint before its last ones
            rows += rows[-3:]
        (path / "params.json").write_text(json.dumps(config))
        (path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        _checkpoint(path / f"checkpoint_{results - 1:06d}", rows[-1])
        data.append([_state(number, trial_id, path.name, config), _metadata(rows[-1])])
    snapshot = {"trial_data": data, "runner_data": {}, "stats": {}}
    (folder / "experiment_state-2026-01-01_00-00-00.json").write_text(json.dumps(snapshot))
    return folder


def _config(draw: random.Random) -> dict[str, Any]:
    return {
        "env": "CartPole-v1",
        "num_envs_per_env_runner": 32,
        "train_batch_size_per_learner": _STEPS,
        "minibatch_size": draw.choice([128, 256, 512]),
        "lr": 10 ** draw.uniform(-5, -2),
        "gamma": 1 - 10 ** draw.uniform(-3, -1),
        "lambda_": draw.uniform(0.9, 1.0),
        "num_epochs": draw.choice([4, 6, 10]),
        "entropy_coeff": 10 ** draw.uniform(-6, -2),
        "model": {"fcnet_activation": draw.choice(["tanh", "relu"])},
    }


def _rows(
    draw: random.Random, trial_id: str, config: dict[str, Any], results: int
) -> Iterator[dict[str, Any]]:
    best = 500 * math.exp(-((math.log10(config["lr"]) + 3) ** 2))
    seconds = 0.0
    for iteration in range(1, results + 1):
        value = best * (1 - math.exp(-5 * iteration / results)) + draw.gauss(0, 10)
        steps, took = _STEPS * iteration, draw.uniform(0.1, 0.3)
        seconds += took
        yield {
            **{f"learner/default_policy/{name}": draw.random() for name in _LOSSES},
            "episode_return_mean": value,
            "episode_return_min": value - 10 * draw.random(),
            "episode_return_max": value + 10 * draw.random(),
            "episode_len_mean": value,
            "num_episodes": draw.randint(4, 80),
            "num_episodes_lifetime": 40 * iteration,
            "num_sub_environment_restarts": 0,
            "num_env_steps_sampled": _STEPS,
            "num_env_steps_sampled_lifetime": steps,
            "num_env_steps_trained_lifetime": steps,
            "num_training_step_calls_lifetime": iteration,
            "env_steps_per_second": _STEPS / took,
            "num_healthy_workers": 0,
            "num_env_runner_restarts": 0,
            "time/sample_s": 0.3 * took,
            "time/learn_s": 0.7 * took,
            "episode_reward_mean": value,
            "episodes_total": 40 * iteration,
            "timesteps_total": steps,
            "done": iteration == results,
            "training_iteration": iteration,
            "trial_id": trial_id,
            "date": "2026-01-01_00-00-00",
            "timestamp": 1767225600 + int(seconds),
            "time_this_iter_s": took,
            "time_total_s": seconds,
            "pid": 1234,
            "hostname": "machine",
            "node_ip": "192.0.2.1",
            "config": config,
            "time_since_restore": seconds,
            "iterations_since_restore": iteration,
        }


def _state(number: int, trial_id: str, folder: str, config: dict[str, Any]) -> str:
    pickled = {"_type": "CLOUDPICKLE_FALLBACK", "value": "80" * 700}
    state = {
        "trainable_name": "PPO",
        "trial_id": trial_id,
        "storage": pickled,
        "config": config,
        "evaluated_params": {k: config[k] for k in ("lr", "gamma", "lambda_", "entropy_coeff")},
        "experiment_tag": f"{number}_lr={config['lr']:.4f}",
        "placement_group_factory": pickled["value"],
        "status": "TERMINATED",
        "relative_logdir": folder,
    }
    return json.dumps(state)


def _metadata(last: dict[str, Any]) -> str:
    """Tune's statistics of every metric: by far the most of a snapshot."""
    numbers = {k: v for k, v in last.items() if isinstance(v, int | float)}
    each = {k: dict.fromkeys(("max", "min", "avg", "last"), v) for k, v in numbers.items()}
    recent = {k: {"5": [v] * 5, "10": [v] * 10} for k, v in numbers.items()}
    return json.dumps(
        {"last_result": last, "metric_analysis": each, "metric_n_steps": recent}, indent=2
    )


def _checkpoint(path: Path, row: dict[str, Any]) -> None:
    policy = path / "policies" / "default_policy"
    policy.mkdir(parents=True)
    counters = {"iteration": row["training_iteration"]}
    (path / "checkpoint.json").write_text(json.dumps({"state": {"counters": counters}}))
    metadata = {"num_env_steps_sampled_lifetime": row["num_env_steps_sampled_lifetime"]}
    (policy / "policy.json").write_text(json.dumps({"state": {"metadata": metadata}}))
