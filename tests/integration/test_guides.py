"""What stands in the guides runs as it stands, or with smaller budgets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from page_blocks import block_with, blocks, write_modules
from ray import tune

from experiments import build_tuner, load_spec
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import load_specs, make_spec
from trainables import DQNConfig, Policy, PPOConfig

GUIDES = "trainables/guides"
SPECS = "experiments/guides"


class Maze(gym.Env):
    """A walk whose level is its length."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.level, self.position = 0, 0

    def set_task(self, level: int) -> None:
        self.level = level

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position = 0
        return np.array([0], np.float32), {}

    def step(self, action: Any) -> Any:
        self.position += 1
        return np.array([self.position], np.float32), 25.0, self.position == 10, False, {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def smaller(code: str, budgets: dict[str, str]) -> str:
    """An example with other budgets, each of which it must have."""
    for old, new in budgets.items():
        assert old in code, old
        code = code.replace(old, new)
    return code


def stored_in(folder: Path) -> dict[str, str]:
    """What an example writes into a folder, rather than into the home folder."""
    return {"tune.RunConfig(": f"tune.RunConfig(storage_path={str(folder)!r}, "}


# ------------------------------------------------------------------ trainables


def test_all_of_rainbow() -> None:
    [text] = blocks(f"{GUIDES}/algorithms.md", "yaml")
    settings = yaml.safe_load(text)
    assert settings["double_q"] and settings["num_atoms"] == 51
    config = DQNConfig.from_dict(settings).environment("CartPole-v1")
    config.training(num_steps_sampled_before_learning_starts=100)
    with config.reporting(min_sample_timesteps_per_iteration=200).build() as algo:
        assert np.isfinite(algo.train()["learner/default_policy/qf_loss"])


def test_a_curriculum() -> None:
    names: dict[str, Any] = {"PPOConfig": PPOConfig, "Maze": Maze}
    code = block_with(f"{GUIDES}/environments.md", "env_task_fn=next_level")
    exec(code.replace("\nPPOConfig()", "\nconfig = PPOConfig()"), names)
    config = names["config"].training(train_batch_size_per_learner=256)
    with config.debugging(seed=0).build() as algo:
        assert algo.train()["episode_return_mean"] == 250
        levels = [env.unwrapped.level for env in algo.env_runners.foreach_env(lambda env: env)[0]]
        assert levels == [2] * len(levels) and levels


def test_an_evaluation_of_ones_own() -> None:
    names: dict[str, Any] = {"PPOConfig": PPOConfig}
    code = block_with(f"{GUIDES}/evaluation.md", "custom_evaluation_function=worst_tenth")
    exec(code.replace("\nPPOConfig()", "\nconfig = PPOConfig()"), names)
    config = names["config"].environment("CartPole-v1").debugging(seed=0)
    with config.training(train_batch_size_per_learner=256).build() as algo:
        assert 8 <= algo.evaluate()["worst_tenth"] <= 500


def test_callbacks(folder: Path) -> None:
    page = f"{GUIDES}/callbacks.md"
    [module] = write_modules(page, folder)
    names: dict[str, Any] = {}
    exec(blocks(page, "python")[1], names)
    config = names["config"].training(num_epochs=1).debugging(seed=0)
    with config.build() as algorithm:
        result = algorithm.train()
    least, mean = (result[f"custom_metrics/pole_angle_{what}"] for what in ("min", "mean"))
    assert 0.2 < least < mean < 0.5  # an episode ends at 12 degrees
    assert result["custom_metrics/long_episodes_sum"] == 0
    assert result["steps_per_episode"] > 5
    del sys.modules[module]


@pytest.mark.full("integration/test_readme.py::test_the_examples_tell_one_story")
def test_a_policy_of_a_result(ray_here: None, folder: Path) -> None:
    names: dict[str, Any] = {}
    code = block_with(f"{GUIDES}/checkpoints.md", "get_best_result")
    exec(smaller(code, {"10_000": "2_000", **stored_in(folder)}), names)
    assert isinstance(names["policy"], Policy)


# ------------------------------------------------------------------ experiments


@pytest.mark.full("integration/test_readme.py::test_the_examples_tell_one_story")
def test_the_orientation_of_experiments(ray_here: None, folder: Path) -> None:
    page = "experiments/README.md"
    [spec] = blocks(page, "yaml")
    Path("cartpole.yaml").write_text(spec, encoding="utf-8")
    assert load_spec("cartpole.yaml").search.algorithm == "tpe"
    [code] = blocks(page, "python")
    names: dict[str, Any] = {}
    few = '["num_samples=1", "stop.num_env_steps_sampled_lifetime=2000", "scheduler=fifo"]'
    exec(smaller(code, {'["num_samples=4"]': few}), names)
    assert len(names["results"]) == 1


def test_the_form_of_a_spec_has_every_key_and_its_default() -> None:
    [text] = blocks(f"{SPECS}/specs.md", "yaml")
    form = yaml.safe_load(text)
    assert {*form, "objectives"} == set(SweepSpec.model_fields)  # of several, by `objective`
    minimal = {key: form[key] for key in ("name", "trainable", "config", "stop")}
    assert make_spec(form) == make_spec(minimal)


def test_a_spec_of_several_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, matrix = blocks(f"{SPECS}/composing.md", "yaml")
    Path("nets").mkdir()
    Path("nets/small.yaml").write_text("model: {fcnet_hiddens: [16]}", encoding="utf-8")
    Path("mine.yaml").write_text(first, encoding="utf-8")
    monkeypatch.setenv("TEAM", "one")
    monkeypatch.setenv("MLFLOW_URI", "sqlite:///mine.db")
    spec = load_spec("mine.yaml")
    assert spec.config["model"] == {"fcnet_hiddens": [16]} and "lr" not in spec.config
    assert spec.seed == 0 and spec.mlflow.tags == {"team": "group one"}
    Path("study.yaml").write_text(matrix, encoding="utf-8")
    stop = "stop.num_env_steps_sampled_lifetime=1000"
    assert len(load_specs("study.yaml", [stop])) == 6  # 2 x 2 x 2 less the two of what is excluded


def test_seeds_with_plain_tune() -> None:
    names: dict[str, Any] = {}
    exec(block_with(f"{SPECS}/seeds.md", "with_seeds"), names)
    assert isinstance(names["tuner"], tune.Tuner)


@pytest.mark.full("integration/test_readme.py::test_the_examples_tell_one_story")
def test_mlflow_with_plain_tune(ray_here: None, folder: Path) -> None:
    names: dict[str, Any] = {}
    code = block_with(f"{SPECS}/mlflow.md", "MLflowCallback")
    few = {"20_000": "1_000", "num_samples=4": "num_samples=1"}
    exec(smaller(code, few | stored_in(folder)), names)
    assert not names["tuner"].fit().errors
    assert (folder / "mlflow.db").is_file()


def test_callbacks_of_a_spec(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    text = blocks(f"{SPECS}/mlflow.md", "yaml")[0]
    (folder / "my_callbacks.py").write_text(
        "from ray import tune\n\nclass Mine(tune.Callback):\n    pass\n\n"
        "class Chat(tune.Callback):\n    def __init__(self, room, token):\n        pass\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("CHAT_TOKEN", "secret")
    Path("spec.yaml").write_text(f"extends: quickstart\nname: mine\n{text}", encoding="utf-8")
    assert len(build_tuner(load_spec("spec.yaml"))._local_tuner.get_run_config().callbacks) > 3
    sys.modules.pop("my_callbacks", None)


@pytest.mark.parametrize("page", ["networks", "own_updates", "your_own"])
def test_modules_of_the_guides_can_be_imported(page: str, folder: Path) -> None:
    modules = write_modules(f"{GUIDES}/{page}.md", folder)
    assert modules
    for name in modules:
        __import__(name)
        del sys.modules[name]
