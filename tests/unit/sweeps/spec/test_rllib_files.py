"""Files in RLlib's form, of old releases and new ones, are read as they are."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import Golden, refusals

from experiments.errors import SpecWarning
from experiments.spec.metrics import canonical_metric
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import load_spec, spec_space
from search_spaces import SpecError

FOLDER = Path(__file__).parents[3] / "rllib_style"


def load(name: str) -> tuple[SweepSpec, list[str]]:
    """The spec, and what was left out of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spec = load_spec(FOLDER / f"{name}.yaml")
    assert all(item.category is SpecWarning for item in caught)
    return spec, [str(item.message).partition(".yaml:")[2] for item in caught]


def test_old_names() -> None:
    spec, notes = load("old_names")
    assert (spec.name, spec.trainable, spec.storage) == ("pendulum-sac--old", "SAC", "~/results")
    assert spec.config == {
        "env": "Pendulum-v1",
        "env_config": {"max_episode_steps": 200},
        "num_env_runners": 0,
        "num_envs_per_env_runner": 2,
        "q_model_config": {"fcnet_activation": "tanh"},
        "policy_model_config": {"fcnet_hiddens": [64, 64]},
        "actor_lr": 0.0005,
        "critic_lr": 0.0004,
        "alpha_lr": 0.0002,
        "replay_buffer_config": {
            "type": "PrioritizedReplayBuffer",
            "capacity": 20000,
            "alpha": 0.5,
        },
        "num_steps_sampled_before_learning_starts": 300,
        "train_batch_size_per_learner": 128,
        "min_sample_timesteps_per_iteration": 500,
        "metrics_num_episodes_for_smoothing": 7,
    }
    assert spec.stop == {"episode_return_mean": -160, "num_env_steps_sampled_lifetime": 20000}
    assert spec.checkpoint.model_dump() == {"num_to_keep": 3, "frequency": 5, "at_end": True}
    assert spec.objective.model_dump() == {"metric": "episode_len_mean", "mode": "min"}
    assert spec.max_failures == 2
    assert sorted(notes) == [
        "15: framework = 'tf2' is left out: everything here is PyTorch",
        "16: eager_tracing = True is left out: everything here is PyTorch",
        "17: use_pytorch = False is left out: everything here is PyTorch",
    ]


def test_new_names() -> None:
    spec, notes = load("new_names")
    assert not notes
    assert spec.config == {
        "env": "CartPole-v1",
        "lr": 5e-4,
        "n_step": 3,
        "train_batch_size_per_learner": 64,
        "evaluation_interval": 1,
        "exploration_config": {
            "type": "EpsilonGreedy",
            "final_epsilon": 0.02,
            "epsilon_timesteps": 5000,
            "warmup_timesteps": 500,
        },
        "replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 30000},
        "num_steps_sampled_before_learning_starts": 600,
    }
    assert spec.stop == {
        "evaluation/episode_return_mean": 450,
        "num_env_steps_sampled_lifetime": 30000,
    }
    assert spec.checkpoint.model_dump() == {"num_to_keep": 4, "frequency": 2, "at_end": False}
    assert spec.objective.model_dump() == {"metric": "episode_return_mean", "mode": "max"}
    assert (spec.num_samples, spec.time_budget_s, spec.storage) == (3, 600, "runs")


def test_grids() -> None:
    spec, notes = load("grid")
    assert spec_space(spec).to_dict() == {
        "env": {"grid": ["CartPole-v1", "Acrobot-v1"]},
        "num_epochs": {"grid": [2, 4]},
        "minibatch_size": {"grid": [64, 128]},
        "model.fcnet_hiddens": {"grid": [[32], [32, 32]]},
    }
    assert spec.config == {"num_env_runners": 0, "train_batch_size_per_learner": 1024, "model": {}}
    assert spec.stop == {"episode_return_mean": 200, "time_total_s": 60}
    assert notes == ["6: pass_criteria is left out: only RLlib's own release tests read it"]


EXPERIMENT: dict[str, Any] = {
    "run": "PPO",
    "env": "CartPole-v1",
    "stop": {"training_iteration": 1},
    "config": {"lr": 1e-3},
}


def message(tmp_path: Path, data: dict[str, Any]) -> str:
    path = tmp_path / "file.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(SpecError) as error:
        load_spec(path)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{tmp_path}/", "")


UNUSABLE: list[dict[str, Any]] = [
    {"chekpoint_freq": 1},
    {"restore": "a/b"},
    {"resources_per_trial": {"cpu": 2}},
    {"sync_config": {}},
    {"checkpoint_config": {"checkpoint_frequncy": 2}},
    {"checkpoint_config": 3},
    {"checkpoint_freq": 3, "checkpoint_config": {"checkpoint_frequency": 2}},
    {"stop": {"episode_reward_maen": 1}},
    {"config": {"framework": "jax"}},
    {"config": {"batch_mode": "whole_episodes"}},
    {"run": "DQN", "config": {"exploration_config": {"type": "SoftP"}}},
    {"run": "DQN", "config": {"exploration_config": {"final_epsilon": "low"}}},
    {"run": "SAC", "config": {"exploration_config": {"type": "SoftQ"}}},
    {"run": "DQN", "config": {"buffer_size": 1, "replay_buffer_config": {"capacity": 2}}},
    {"run": "A3C"},
]


def test_what_cannot_be_used_is_named(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "file.yaml"

    def read(changes: dict[str, Any]) -> None:
        path.write_text(yaml.safe_dump({"x": {**EXPERIMENT, **changes}}, sort_keys=False))
        load_spec(path)

    golden(
        "sweeps/rllib_files",
        refusals(read, UNUSABLE, SpecError, replace={str(tmp_path): "<folder>"}),
    )


def test_an_experiment_without_its_algorithm(tmp_path: Path) -> None:
    experiment = {("rnu" if key == "run" else key): value for key, value in EXPERIMENT.items()}
    assert "yaml:1: x: missing key 'run', the algorithm; its keys: rnu, " in message(
        tmp_path, {"x": experiment}
    )


def test_the_same_name_in_a_spec_of_our_own_form_is_an_error(tmp_path: Path) -> None:
    data = {"trainable": "PPO", "config": {"env": "CartPole-v1", "framework": "tf2"}}
    assert "framework = 'tf2' is not supported; it is always 'torch'" in message(tmp_path, data)


METRICS = [
    ("episode_reward_mean", "episode_return_mean"),
    ("sampler_results/episode_reward_mean", "episode_return_mean"),
    ("env_runners/episode_return_mean", "episode_return_mean"),
    ("env_runners/num_env_steps_sampled_lifetime", "num_env_steps_sampled_lifetime"),
    ("num_env_steps_trained", "num_env_steps_trained_lifetime"),
    ("evaluation/episode_reward_mean", "evaluation/episode_return_mean"),
    ("evaluation/sampler_results/episode_reward_mean", "evaluation/episode_return_mean"),
    ("evaluation/env_runners/episode_return_mean", "evaluation/episode_return_mean"),
    ("learner/default_policy/policy_loss", "learner/default_policy/policy_loss"),
]


def test_metrics() -> None:
    assert {name: canonical_metric(name) for name, _ in METRICS} == dict(METRICS)
