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
from experiments.sweep.load import load_spec
from search_spaces import SpecError

FOLDER = Path(__file__).parents[3] / "rllib_style"


def load(name: str) -> tuple[SweepSpec, list[str]]:
    """The spec, and what was left out of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spec = load_spec(FOLDER / f"{name}.yaml")
    assert all(item.category is SpecWarning for item in caught)
    return spec, [str(item.message).partition(".yaml:")[2] for item in caught]


FIELDS = ("name", "trainable", "config", "search_space", "stop", "checkpoint", "objective")
FIELDS = (*FIELDS, "num_samples", "max_failures", "time_budget_s", "storage")


def test_files_of_old_and_new_releases(golden: Golden) -> None:
    texts = {}
    for name in ("old_names", "new_names", "grid"):
        spec, notes = load(name)
        found = spec.model_dump(include=set(FIELDS))
        text = yaml.safe_dump({key: found[key] for key in FIELDS}, width=100, sort_keys=True)
        texts[name] = text + "".join(f"# {note}\n" for note in sorted(notes))
    golden("sweeps/rllib_releases", texts)


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
