"""Every default of the reference is accepted, as a dict of all and one by one, and anything else
is refused as before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml
from every_row import check_rows

from trainables import DQNConfig, PPOConfig, SACConfig
from trainables.core.config.reference import compatibility
from trainables.core.config.reference import defaults as reference_defaults
from trainables.core.errors import ConfigError
from trainables.registry import get_algorithm

DEFAULTS = yaml.safe_load(Path(__file__).with_name("reference_defaults.yaml").read_text())
CASES = [
    (generation, algorithm)
    for generation, algorithms in DEFAULTS.items()
    for algorithm in algorithms
    if algorithm != "every"
]
ENVS = {"SAC": "Pendulum-v1"}


def written(value: Any) -> Any:
    """A default as YAML has it: classes by name."""
    if isinstance(value, dict):
        return {key: written(item) for key, item in value.items()}
    return value.name if isinstance(value, reference_defaults.Named) else value


def defaults(generation: str, algorithm: str) -> dict[str, Any]:
    return {**DEFAULTS[generation]["every"], **DEFAULTS[generation][algorithm]}


def test_a_dict_of_all_defaults_loads() -> None:
    def check(generation: str, algorithm: str) -> None:
        given = defaults(generation, algorithm)
        assert len(given) > (140 if generation == "older" else 230)
        config_class = get_algorithm(algorithm).config_class
        config = config_class.from_dict(given)
        assert config.to_dict() == config_class().update_from_dict(given).to_dict()
        assert config.gamma == 0.99
        assert config.num_envs_per_env_runner == 1
        assert config.evaluation_config == {"explore": False}
        config.env = ENVS.get(algorithm, "CartPole-v1")
        config.validate()

    check_rows(check, CASES)


def test_each_default_is_accepted_alone() -> None:
    """Those of every algorithm by one each in turn: all take them in the dict of all.

    By copies of one config, as `from_dict` does with a new one, which takes longer to make.
    """
    configs = {name: get_algorithm(name).config_class() for _, name in CASES}

    def check(algorithm: str, name: str, value: Any) -> None:
        configs[algorithm].copy().update_from_dict({name: value})

    rows = []
    for algorithms in DEFAULTS.values():
        own = {name: given for name, given in algorithms.items() if name != "every"}
        rows += [(name, *row) for name, given in own.items() for row in given.items()]
        rows += [(name, *row) for name, row in zip(cycle(own), algorithms["every"].items())]
    check_rows(check, rows)


def test_numbers_of_the_reference_are_set() -> None:
    config = PPOConfig.from_dict(defaults("older", "PPO"))
    assert (config.lr, config.train_batch_size_per_learner, config.num_epochs) == (5e-5, 4000, 30)
    assert (config.minibatch_size, config.lambda_, config.clip_param) == (128, 1.0, 0.3)
    assert (config.kl_coeff, config.use_kl_loss, config.num_env_runners) == (0.2, True, 2)
    assert config.model["fcnet_hiddens"] == [256, 256]
    newer = SACConfig.from_dict(defaults("newer", "SAC"))
    assert (newer.actor_lr, newer.critic_lr, newer.alpha_lr) == (3e-5, 3e-4, 3e-4)
    assert newer.train_batch_size_per_learner == 256
    older = DQNConfig.from_dict(defaults("older", "DQN"))
    assert older.replay_buffer_config["capacity"] == 50_000
    assert "vf_share_layers" not in older.model


def test_the_defaults_play_and_learn() -> None:
    """DQN's, since they ask for no actors."""
    config = DQNConfig.from_dict({**defaults("newer", "DQN"), "log_sys_usage": False})
    config.environment("CartPole-v1").reporting(min_sample_timesteps_per_iteration=200)
    with config.build() as algorithm:
        assert algorithm.train()["num_env_steps_sampled_lifetime"] >= 200


def test_what_is_not_here_has_a_default_or_none_there() -> None:
    """Its default does nothing by any way in; another value raises by all of them."""
    config = PPOConfig()
    unchanged = config.to_dict()
    tables: tuple[Mapping[str, Any], ...] = (compatibility.PLANNED, compatibility.REFUSED)

    def check(name: str, section: str) -> None:
        values = reference_defaults.defaults_of(name)
        assert values
        for value in map(written, values):
            assert PPOConfig.from_dict({name: value}).to_dict() == unchanged
            assert getattr(config, section)(**{name: value}).to_dict() == unchanged

        says = f"{name}.* is not supported"
        with pytest.raises(ConfigError, match=says):
            PPOConfig.from_dict({name: "another"})
        with pytest.raises(ConfigError, match=says):
            getattr(config, section)(**{name: "another"})
        with pytest.raises(ConfigError, match=says):
            setattr(config, name, "another")

    check_rows(check, [(name, row.section) for table in tables for name, row in table.items()])


def test_fluent_methods_take_defaults() -> None:
    unchanged = PPOConfig().to_dict()
    config = PPOConfig().debugging(logger_config=None, logger_creator=None, fake_sampler=False)
    config.framework("torch", eager_tracing=False, torch_compile_learner=False)
    config.environment(auto_wrap_old_gym_envs=True)
    config.rollouts(horizon=None, soft_horizon=False, no_done_at_end=False, sample_collector=None)
    config.offline_data(input_="sampler", output=None)
    config.evaluation(off_policy_estimation_methods={}, enable_async_evaluation=False)
    config.multi_agent(policies={"default_policy": (None, None, None, {})}, policies_to_train=None)
    config.checkpointing(checkpoint_trainable_policies_only=False)
    config.api_stack(enable_rl_module_and_learner=False)
    assert config.to_dict() == unchanged
    config.logger_config = None
    assert config.to_dict() == unchanged


class DefaultCallbacks:
    """Called as the reference's class is."""


def test_classes_of_the_reference_are_told_by_name() -> None:
    for given in (DefaultCallbacks, "ray.rllib.algorithms.callbacks.DefaultCallbacks"):
        assert PPOConfig.from_dict({"callbacks": given}).callbacks_class is None


def test_other_values_are_refused_as_before(golden: Callable[..., None]) -> None:
    def message(config_class: Any, given: dict[str, Any]) -> str:
        with pytest.raises(ConfigError) as raised:
            config_class.from_dict(given)
        return str(raised.value)

    of_ppo: tuple[dict[str, Any], ...] = (
        {"horizon": 200},
        {"policies": {"one": 1}},
        {"policies": {"default_policy": (int, None, None, {})}},
        {"multiagent": {"policies": {"one": 1}}},
        {"num_multi_gpu_tower_stacks": True},
        {"episodes_to_numpy": 1},
        {"model": {"dim": 64}},
        {"model": {"grayscale": True}},
        {"lr": -1},
        {"num_gpus": 2, "num_gpus_per_learner": 0},
        {"train_batch_size": 9, "train_batch_size_per_learner": 8},
    )
    without_effect: tuple[dict[str, Any], ...] = (
        {"model": {"squash_actions": True}},
        {"num_epochs": 3},
    )
    texts = {f"PPO: {given}": message(PPOConfig, given) for given in of_ppo}
    texts |= {f"DQN: {given}": message(DQNConfig, given) for given in without_effect}
    golden("reference_values", texts)


def test_what_has_no_effect_without_actors_is_told_in_the_end() -> None:
    config = DQNConfig().environment("CartPole-v1").env_runners(sample_timeout_s=7)
    with pytest.raises(ConfigError, match="sample_timeout_s = 7 has no effect"):
        config.validate()
