"""Algorithms with settings that make one iteration a matter of milliseconds."""

from __future__ import annotations

import importlib.util
from typing import Any

import cloning
import ray
import torch
from placed import AsksForFakeGPUs
from recorded_data import recorded

from trainables import PPO
from trainables.core.data.batch import Rollout
from trainables.registry import algorithm_names, get_algorithm
from trainables.runtime.envs.games.known import PACKAGES
from trainables.runtime.sampling.env_runner import EnvRunner
from trainables.runtime.sampling.sampling_worker import Episodes

_ON_POLICY: dict[str, Any] = {
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 128,
    "num_epochs": 2,
    "minibatch_size": 64,
    "min_sample_timesteps_per_iteration": 256,
}
_REPLAY: dict[str, Any] = {
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 32,
    "training_intensity": 2,
    "num_steps_sampled_before_learning_starts": 100,
    "replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 2000},
    "store_buffer_in_checkpoints": True,
    "min_sample_timesteps_per_iteration": 256,
    "n_step": [1, 3],
    "model": {"fcnet_hiddens": [32, 32]},
}
_FROM_DATA: dict[str, Any] = {
    "train_batch_size_per_learner": 64,
    "dataset_num_iters_per_learner": 5,
    "model": {"fcnet_hiddens": [16]},
}
# Beside these, what shows more of an algorithm; none need have an entry.
_OWN: dict[str, dict[str, Any]] = {
    "A2C": {"train_batch_size_per_learner": 64},
    "APPO": {
        "rollout_fragment_length": 16,
        "num_epochs": 1,
        "circular_buffer_num_batches": 3,
        "circular_buffer_iterations_per_batch": 2,
        "target_network_update_freq": 0.25,
        "use_kl_loss": True,
    },
    "DQN": {"noisy": True, "num_atoms": 11, "v_min": 0.0, "v_max": 50.0},
    "DreamerV3": {
        "model_size": "nano",
        "batch_size_B": 2,
        "batch_length_T": 8,
        "horizon_H": 3,
        "training_ratio": 2,
        "warmup_updates": 0,
        "replay_buffer_config": {"capacity": 2000},
        "model": {},
    },
    "IMPALA": {"rollout_fragment_length": 16},
    "QMIX": {"noisy": True},
    "PPO": {
        "train_batch_size_per_learner": 256,
        "min_sample_timesteps_per_iteration": 0,
        "use_kl_loss": True,
    },
}
# For algorithms with discrete actions only: the same worlds with three actions.
DISCRETE = {
    "Pendulum-v1": "fakes:discrete_pendulum",
    "fakes:limited_walk": "fakes:discrete_walk",
}


def small(name: str) -> dict[str, Any]:
    """The settings that make an iteration of an algorithm short."""
    config_class = get_algorithm(name).config_class
    if needs_data(name):
        return {**_FROM_DATA, **_OWN.get(name, {})}
    if not samples(name):
        return dict(cloning.SMALL)
    shared = _REPLAY if learns_from_replay(name) else _ON_POLICY
    has = {key: value for key, value in shared.items() if key not in config_class.without}
    return {**has, **_OWN.get(name, {})}


def learns_from_replay(name: str) -> bool:
    config_class = get_algorithm(name).config_class
    fills = "replay_buffer_config" not in config_class.without
    return fills and "replay_buffer_config" in config_class.settings()


def needs_data(name: str) -> bool:
    """Whether it learns from recorded data, and from nothing else."""
    learns: bool = get_algorithm(name).config_class.learns_from_data
    return learns and not samples(name)


def samples(name: str) -> bool:
    """Whether training steps an environment."""
    needs_env: bool = get_algorithm(name).config_class().needs_env
    return needs_env


def learns_from_episodes(name: str) -> bool:
    """Whether it waits for episodes to end, unless it is told not to."""
    batch_mode: str = get_algorithm(name).config_class().batch_mode
    return batch_mode == "complete_episodes"


def is_asynchronous(name: str) -> bool:
    """Whether it takes fragments of actors in the order in which these arrive, which no seed
    decides."""
    without = get_algorithm(name).config_class.without
    return "max_requests_in_flight_per_env_runner" not in without


def without_memory() -> list[str]:
    """The algorithms whose networks have no memory unless they are asked to."""
    configs = {name: get_algorithm(name).config_class() for name in algorithm_names()}
    return [name for name, config in configs.items() if not config.resolve().model.memory]


def compares_actions(name: str) -> bool:
    """Whether it chooses among discrete actions by their values, and takes no other ones."""
    return "EpsilonGreedy" in get_algorithm(name).config_class.exploration_types


def adds_noise(name: str) -> bool:
    """Whether its actions are continuous before all."""
    return "GaussianNoise" in get_algorithm(name).config_class.exploration_types


def home(name: str) -> str:
    """The environment that shows most of an algorithm."""
    return "Pendulum-v1" if adds_noise(name) else "CartPole-v1"


def suited(name: str, env: Any) -> Any:
    """The environment, or the like of it that an algorithm can act in."""
    return DISCRETE.get(env, env) if compares_actions(name) else env


# Environments of extras: the library that they are made with, and the extra's name.
_NEEDS = {
    "LunarLander": ("Box2D", "box2d"),
    "HalfCheetah": ("mujoco", "mujoco"),
    "Hopper": ("mujoco", "mujoco"),
    **{start: (package.library, package.extra) for start, package in PACKAGES.items()},
}


def missing_extra(spec_text: str) -> str | None:
    """The extra that a spec's environment needs and that is not installed."""
    for prefix, (library, extra) in _NEEDS.items():
        needed = f"env: {prefix}" in spec_text or f"tunescape[{extra}]" in spec_text
        if needed and importlib.util.find_spec(library) is None:
            return extra
    return None


def on_two_cores(config: dict[str, Any]) -> dict[str, Any]:
    """A spec's config for an iteration in this process: no GPUs, no actors, no long games."""
    small = dict(config)
    if "input_" in config:  # its data are yet to be recorded
        small |= {"input_": recorded(config["env"]), "dataset_num_iters_per_learner": 2}
        return small | {"evaluation_duration": 2}
    if str(config["env"]).startswith("ALE/"):  # a game takes minutes
        small["env_config"] = {**config["env_config"], "max_num_frames_per_episode": 400}
        if "model_size" not in config:
            small |= {"num_epochs": 1, "train_batch_size_per_learner": 512}
    if not config.get("num_gpus_per_learner"):
        return small
    small |= {"num_gpus_per_learner": 0, "num_learners": 0, "num_env_runners": 0}
    small |= {"num_envs_per_env_runner": 2}
    if "model_size" in config:
        small |= {"model_size": "nano", "batch_size_B": 2, "batch_length_T": 16, "horizon_H": 3}
        small |= {"training_ratio": 1, "num_steps_sampled_before_learning_starts": 64}
        small |= {"min_sample_timesteps_per_iteration": 128}
        small["replay_buffer_config"] = {**config["replay_buffer_config"], "capacity": 1000}
    elif "replay_buffer_config" in config:
        small["replay_buffer_config"] = {**config["replay_buffer_config"], "capacity": 1000}
        small |= {"num_steps_sampled_before_learning_starts": 64, "training_intensity": 1}
        small |= {"min_sample_timesteps_per_iteration": 128, "train_batch_size_per_learner": 32}
    elif "minibatch_size" in config:
        small |= {"train_batch_size_per_learner": 256, "minibatch_size": 128}
    else:
        small |= {"train_batch_size_per_learner": 200, "rollout_fragment_length": 50}
    return small


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


def actions_in(computed: Any) -> Any:
    """The actions that a policy has computed: one with a memory gives its state beside them."""
    return getattr(computed, "actions", computed)


def settings_of(name: str, env: Any = "CartPole-v1", **more: Any) -> dict[str, Any]:
    world = suited(name, env)
    data = {"input_": recorded(world, more.get("env_config"))} if needs_data(name) else {}
    return {"env": world, "seed": 3, **data, **small(name), **more}


def trusted(
    name: str, env: Any = "CartPole-v1", env_config: dict[str, Any] | None = None
) -> list[str]:
    """What must be trusted in a checkpoint of `settings_of`: worlds of ours, and data."""
    worlds = [world for world in (env, suited(name, env)) if ":" in str(world)]
    return [*worlds, *([recorded(suited(name, env), env_config)] if needs_data(name) else [])]


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


class PlacedOnFakeGPU(AsksForFakeGPUs, Placed):
    """`Placed`, on a GPU that a cluster says it has."""


class RecordsExploration(EnvRunner):
    """Keeps how it explored in its last sample."""

    def sample(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        self.explored_by = dict(self.policy.exploration)
        return super().sample(num_steps)


class Threads(PPO):
    """Reports the threads that it computes with; one of two trials ends early.

    The other one ends when it has more than one thread: they wait for each other on a busy machine.
    """

    def step(self) -> dict[str, Any]:
        threads = torch.get_num_threads()
        ends = self.iteration > 0 if self.config.lr == 1e-3 else threads > 1
        return super().step() | {"threads": threads, "done": ends}
