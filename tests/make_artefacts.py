"""`PYTHONPATH=TREE python make_artefacts.py FOLDER [NAME ...]`: what a commit saves is kept.

Checkpoints of small algorithms, each with what it computed, and three sweeps. Nothing is imported
but the tree of the commit. Run it where no path tells of a machine: sweeps note theirs. Data are
given as a relative path.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from trainables.core.networks.world_model.sizes import ModelSize
from trainables.dreamerv3.sizes import SIZES, SizePreset
from trainables.registry import get_algorithm

DATA = "data"
_NET = {"fcnet_hiddens": [8]}
_ON_POLICY: dict[str, Any] = {
    "seed": 3,
    "num_envs_per_env_runner": 2,
    "train_batch_size_per_learner": 64,
    "minibatch_size": 32,
    "num_epochs": 1,
    "min_sample_timesteps_per_iteration": 64,
    "model": _NET,
}
_REPLAY: dict[str, Any] = {
    "seed": 3,
    "num_envs_per_env_runner": 2,
    "train_batch_size_per_learner": 16,
    "training_intensity": 1,
    "num_steps_sampled_before_learning_starts": 32,
    "min_sample_timesteps_per_iteration": 32,
    "replay_buffer_config": {"capacity": 200},
    "model": _NET,
}
CHECKPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("PPO", {**_ON_POLICY, "env": "CartPole-v1", "observation_filter": "MeanStdFilter"}),
    "ppo_lstm": (
        "PPO",
        {
            **_ON_POLICY,
            "env": "CartPole-v1",
            "model": {**_NET, "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 4},
        },
    ),
    "ppo_agents": (
        "PPO",
        {
            **_ON_POLICY,
            "env": "multi_agent_cartpole",
            "env_config": {"num_agents": 3},
            "policies": ["a", "b"],
            "policy_mapping_fn": {"agent_0": "a", "*": "b"},
        },
    ),
    "dqn": ("DQN", {**_REPLAY, "env": "CartPole-v1"}),
    "sac": ("SAC", {**_REPLAY, "env": "Pendulum-v1"}),
    "bc": (
        "BC",
        {
            "seed": 3,
            "env": "CartPole-v1",
            "input_": DATA,
            "train_batch_size_per_learner": 32,
            "dataset_num_iters_per_learner": 3,
            "model": _NET,
        },
    ),
    "dreamerv3": (
        "DreamerV3",
        {
            "seed": 3,
            "env": "CartPole-v1",
            "num_envs_per_env_runner": 2,
            "model_size": "nano",
            "batch_size_B": 2,
            "batch_length_T": 4,
            "horizon_H": 2,
            "training_ratio": 1,
            "warmup_updates": 0,
            "num_steps_sampled_before_learning_starts": 16,
            "min_sample_timesteps_per_iteration": 32,
            "replay_buffer_config": {"capacity": 100},
        },
    ),
}
for _name in ("dqn", "sac", "dreamerv3"):
    _algorithm, _settings = CHECKPOINTS[_name]
    _stored = {**_settings, "store_buffer_in_checkpoints": True}
    CHECKPOINTS[f"{_name}_replay"] = (_algorithm, _stored)
TINY = SizePreset(ModelSize(4, 2, 2, 2, 2, 1, 2, blocks=2), 1e-3, 50)
"""In place of nano, whose checkpoint would be a megabyte."""
NUM_ITERATIONS = 3


def computed(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Return what policies make of drawn observations: their best actions, and what these are of.

    Args:
        policies: By module id.
    """
    found: dict[str, Any] = {}
    for module_id, policy in policies.items():
        shape = policy.observation_space.shape
        obs = np.random.default_rng(0).normal(size=(6, *shape)).astype(np.float32)
        actions, state, extra = policy.compute_actions(obs, explore=False, full_fetch=True)
        found[module_id] = {"actions": actions, "state": state, "extra": extra}
    return found


def policies_of(algo: Any) -> dict[str, Any]:
    """Return an algorithm's policies by module id."""
    return {module_id: algo.get_policy(module_id) for module_id in algo.get_weights()}


def plain(value: Any) -> Any:
    """Return lists and numbers in place of arrays."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


def make_checkpoint(name: str, folder: Path) -> None:
    """Train an algorithm for some iterations; save it, and what it computes."""
    algorithm, settings = CHECKPOINTS[name]
    SIZES["nano"] = TINY
    with get_algorithm(algorithm)(config=settings) as algo:
        for _ in range(NUM_ITERATIONS):
            algo.train()
        algo.save(str(folder / name))
        expected = plain(computed(policies_of(algo)))
    (folder / name / "expected.json").write_text(json.dumps(expected) + "\n")


def record(folder: Path) -> None:
    """Record random play that BC learns from."""
    settings = {**_ON_POLICY, "env": "CartPole-v1", "output": str(folder)}
    with get_algorithm("PPO")(config=settings) as algo:
        algo.train()


# ------------------------------------------------------------------ sweeps

_SWEEP: dict[str, Any] = {
    "trainable": "PPO",
    "config": {**{k: v for k, v in _ON_POLICY.items() if k != "seed"}, "env": "CartPole-v1"},
    "search_space": {"lr": {"loguniform": [1e-4, 1e-2]}, "gamma": {"choice": [0.9, 0.99]}},
    "search": {"algorithm": "optuna", "n_startup_trials": 1},
    "objective": {"metric": "episode_return_mean", "mode": "max"},
    "mlflow": {"enabled": False},
    "seed": 0,
}
SWEEPS: dict[str, dict[str, Any]] = {
    "finished": {
        "scheduler": {"algorithm": "asha", "grace_period": 128},
        "stop": {"num_env_steps_sampled_lifetime": 512},
        "num_samples": 3,
        "checkpoint": {"num_to_keep": 1},
    },
    "interrupted": {
        "stop": {"training_iteration": 12},
        "num_samples": 2,
        "max_concurrent": 1,
        "config": {"min_time_s_per_iteration": 0.3},
        "checkpoint": {"num_to_keep": 1, "frequency": 2},
    },
    "final": {
        "stop": {"num_env_steps_sampled_lifetime": 256},
        "num_samples": 2,
        "final": {"top": 1, "seeds": 2},
        "checkpoint": {"num_to_keep": 1},
    },
}
_INTERRUPTED_AT = 5  # iterations of the second trial


def make_sweep(name: str, folder: Path) -> None:
    """Run a sweep in a process of its own; the one called so is interrupted in its last trial."""
    own = SWEEPS[name]
    spec = {**_SWEEP, "name": name, "storage": ".", **own}
    spec["config"] = {**_SWEEP["config"], **own.get("config", {})}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    command = [sys.executable, "-m", "tunescape", "run", f"{name}.yaml"]
    process = subprocess.Popen(command, cwd=folder)
    if name == "interrupted":
        while process.poll() is None and not _is_amid_the_last(folder / name):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
    process.wait()
    (folder / f"{name}.yaml").unlink()
    for pattern in ("*.html", "*.png"):  # they would be most of it, and nothing reads them
        for file in (folder / name).rglob(pattern):
            file.unlink()


def _is_amid_the_last(folder: Path) -> bool:
    lines = [len(file.read_text().splitlines()) for file in folder.glob("*/result.json")]
    return len(lines) == 2 and min(lines) >= _INTERRUPTED_AT


def main(folder: Path, names: Sequence[str]) -> None:
    """Make what is named in a folder."""
    torch.set_num_threads(1)
    for part in ("checkpoints", "sweeps"):
        (folder / part).mkdir(parents=True)
    os.chdir(folder / "checkpoints")
    for name in names:
        if name in SWEEPS:
            make_sweep(name, folder / "sweeps")
            continue
        if name == "bc":
            record(Path(DATA))
        make_checkpoint(name, folder / "checkpoints")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:] or [*CHECKPOINTS, *SWEEPS])
