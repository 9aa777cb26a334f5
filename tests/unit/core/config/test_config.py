"""`AlgorithmConfig`: how settings are given, copied, checked together, and written."""

from __future__ import annotations

import inspect
import json
import pickle
import pydoc
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from every_row import check_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from ray import tune

from trainables import PPO, AlgorithmConfig, PPOConfig
from trainables.core.config.evaluations import EVALUATION_SETTINGS
from trainables.core.config.model import ModelConfig, OptimizerConfig
from trainables.core.config.settings import Setting
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

CLASSES = [AlgorithmConfig, *(get_algorithm(name).config_class for name in algorithm_names())]


def raises(message: str) -> Any:
    return pytest.raises(ConfigError, match=message)


# ------------------------------------------------------------------ declarations


def test_declarations_are_sound() -> None:
    def check(config_class: Any) -> None:
        for name, declared in config_class.settings().items():
            assert declared.check(declared.default) == declared.default, name
            assert declared.doc and declared.doc[-1] != ".", name
            if config_class not in (ModelConfig, OptimizerConfig):
                assert callable(getattr(config_class, declared.section)), name

    check_rows(check, [*CLASSES, ModelConfig, OptimizerConfig])


def test_a_setting_has_one_section_in_all_classes() -> None:
    sections: dict[str, set[str]] = {}
    for config_class in CLASSES:
        for name, declared in config_class.settings().items():
            sections.setdefault(name, set()).add(declared.section)
    assert {name: s for name, s in sections.items() if len(s) > 1} == {}


def test_an_algorithm_changes_only_defaults_of_base_settings() -> None:
    base = AlgorithmConfig.settings()
    for name, declared in PPOConfig.settings().items():
        if name in base:
            described = Setting(**{**vars(base[name]), "default": declared.default})
            assert declared == described


# ------------------------------------------------------------------ fluent methods


def test_fluent_methods_set_and_return_self() -> None:
    config = PPOConfig()
    same = (
        config.environment("CartPole-v1", env_config={"max_episode_steps": 10})
        .env_runners(num_env_runners=2, num_envs_per_env_runner=4)
        .training(lr=1e-3, clip_param=0.1, model={"fcnet_hiddens": [8]})
        .learners(num_gpus_per_learner=0)
        .resources(num_cpus_for_main_process=2)
        .exploration(explore=False)
        .evaluation(evaluation_interval=2)
        .reporting(min_time_s_per_iteration=0.5)
        .checkpointing(export_native_model_files=True)
        .debugging(seed=3)
        .framework("torch")
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .experimental(_enable_new_api_stack=True)
        .fault_tolerance(restart_failed_env_runners=False)
        .offline_data()
        .multi_agent()
        .callbacks()
        .python_environment()
    )
    assert same is config
    expected = PPOConfig().to_dict() | {
        "env": "CartPole-v1",
        "env_config": {"max_episode_steps": 10},
        "num_env_runners": 2,
        "num_envs_per_env_runner": 4,
        "lr": 1e-3,
        "clip_param": 0.1,
        "model": {"fcnet_hiddens": [8]},
        "num_cpus_for_main_process": 2,
        "explore": False,
        "evaluation_interval": 2,
        "min_time_s_per_iteration": 0.5,
        "export_native_model_files": True,
        "seed": 3,
    }
    assert config.to_dict() == expected


def test_wrong_section_is_named() -> None:
    with raises(r"'num_env_runners' is not a setting of \.training\(\); .* \.env_runners\(\)"):
        PPOConfig().training(num_env_runners=2)
    with raises(r"'gamma' is not a setting of \.environment\(\); it belongs to \.training\(\)"):
        PPOConfig().environment("CartPole-v1", gamma=0.9)
    with raises(r"'num_sgd_iter' is not a setting of \.debugging\(\); .* \.training\(\)"):
        PPOConfig().debugging(num_sgd_iter=3)


def test_nothing_is_set_when_one_value_is_wrong() -> None:
    config = PPOConfig()
    with raises("clip_param = -1"):
        config.training(lr=0.5, clip_param=-1)
    assert config.to_dict() == PPOConfig().to_dict()


def test_unknown_setting_with_nearest_names() -> None:
    with raises(r"unknown setting 'clip_parm' of PPOConfig; did you mean 'clip_param' \(in \.tra"):
        PPOConfig().training(clip_parm=0.1)
    with raises("unknown setting 'num_rollout_worker' of PPOConfig; did you mean 'num_env_runners"):
        PPOConfig.from_dict({"num_rollout_worker": 1})
    with raises("clip_param = .* is no setting of Algorithm; it belongs to APPO, PPO"):
        AlgorithmConfig.from_dict({"clip_param": 0.1})
    with raises("unknown setting '3' of PPOConfig"):
        PPOConfig.from_dict({3: 1})  # type: ignore[dict-item]


def test_positional_arguments() -> None:
    assert PPOConfig().environment("CartPole-v1").env == "CartPole-v1"
    assert PPOConfig.environment(PPOConfig(), "CartPole-v1").env == "CartPole-v1"
    with pytest.raises(TypeError, match=r"\.training\(\) takes keyword arguments"):
        PPOConfig().training(0.1)
    with pytest.raises(TypeError, match=r"PPOConfig\.training\(\) needs an instance"):
        PPOConfig.training(lr=0.1)


def test_help_lists_exactly_the_settings_of_the_section() -> None:
    def check(config_class: Any) -> None:
        for section in {declared.section for declared in config_class.settings().values()}:
            method = getattr(config_class, section)
            expected = {n for n, d in config_class.settings().items() if d.section == section}
            assert set(inspect.signature(method).parameters) == expected
            text = pydoc.render_doc(method, renderer=pydoc.plaintext)
            for name in expected:
                declared = config_class.settings()[name]
                assert f"{name}: {declared.doc} ({declared.allowed}" in text

    check_rows(check, CLASSES)


def test_help_shows_the_algorithms_own_settings() -> None:
    text = pydoc.render_doc(PPOConfig.training, renderer=pydoc.plaintext)
    assert "clip_param: clip range of the probability ratio, epsilon (float or schedule" in text
    assert "num_epochs: passes over the train batch (int, >= 1; default 10)" in text
    assert "clip_param" not in pydoc.render_doc(AlgorithmConfig.training)


# ------------------------------------------------------------------ nested dicts


def test_nested_dicts_are_checked() -> None:
    with raises("unknown model setting 'fcnet_hidden' of ModelConfig; did you mean 'fcnet_hid"):
        PPOConfig().training(model={"fcnet_hidden": [8]})
    with raises(r"fcnet_activation = 'tahn' is not allowed; allowed: one of 'tanh'"):
        PPOConfig().training(model={"fcnet_activation": "tahn"})
    with raises(r"model setting 'framestack' is not supported: use frame_stack of .environment"):
        PPOConfig().training(model={"framestack": False})
    with raises(r"unknown optimizer setting 'lr' of OptimizerConfig"):
        PPOConfig().training(optimizer={"lr": 0.1})
    with raises(r"beta1 = 1 is not allowed; allowed: float, >= 0, < 1"):
        PPOConfig().training(optimizer={"beta1": 1})
    with raises(r"model = 3 is not allowed; allowed: dict"):
        PPOConfig().training(model=3)


def test_domains_pass_anywhere() -> None:
    space = {
        "lr": tune.loguniform(1e-5, 1e-2),
        "num_sgd_iter": tune.choice([1, 2]),
        "model": {"fcnet_hiddens": [tune.choice([8, 16]), 8], "fcnet_activation": tune.choice("a")},
        "optimizer": tune.grid_search([{"eps": 1e-5}, {"eps": 1e-8}]),
        "env_config": {"gravity": tune.uniform(5, 15)},
        "evaluation_config": tune.grid_search([{"explore": True}, {"explore": False}]),
    }
    config = PPOConfig.from_dict(space)
    for name in ("lr", "model", "optimizer", "env_config", "evaluation_config"):
        assert config[name] == space[name], name
    assert config.num_epochs is space["num_sgd_iter"]
    assert PPOConfig().training(model=tune.grid_search([{}, {"vf_share_layers": True}]))
    with raises("unknown model setting 'fcnet_hidens'"):
        PPOConfig.from_dict({"model": {"fcnet_hidens": tune.choice([1])}})
    with raises(
        "env_config, lr, num_epochs, model, .*: a search domain can be swept by tune.Tuner, not"
    ):
        PPOConfig.from_dict({**space, "env": "CartPole-v1"}).validate()


# ------------------------------------------------------------------ older names


def test_legacy_spellings() -> None:
    config = (
        PPOConfig()
        .environment(env="CartPole-v1")
        .framework("torch")
        .rollouts(num_rollout_workers=2, num_envs_per_worker=4, batch_mode="truncate_episodes")
        .training(
            lambda_=0.9,
            train_batch_size=4000,
            num_sgd_iter=5,
            sgd_minibatch_size=100,
            lr_schedule=[[0, 1e-3], [1000, 1e-4]],
            entropy_coeff=0.01,
            entropy_coeff_schedule=None,
        )
        .resources(num_gpus=0.5, num_cpus_per_worker=2, num_learner_workers=0)
        .experimental(_enable_new_api_stack=True, _disable_preprocessor_api=False)
        .evaluation(evaluation_num_workers=0, evaluation_num_episodes=7)
    )
    assert config.num_env_runners == config.num_rollout_workers == config["num_workers"] == 2
    assert config.num_envs_per_env_runner == 4
    assert config.train_batch_size_per_learner == config.train_batch_size == 4000
    assert (config.num_epochs, config.minibatch_size) == (5, 100)
    assert config.lr == [[0, 1e-3], [1000, 1e-4]]
    assert config.entropy_coeff == 0.01
    assert config.num_gpus_per_learner == config.num_gpus == 0.5
    assert config.num_cpus_per_env_runner == 2
    assert config.evaluation_duration == 7


def test_legacy_dict() -> None:
    config = PPOConfig.from_dict(
        {
            "env": "CartPole-v1",
            "framework": "torch",
            "num_workers": 1,
            "lambda": 0.8,
            "lr": 3e-4,
            "lr_schedule": [[0, 1e-3], [100, 0.0]],
            "entropy_coeff_schedule": [[0, 0.1], [100, 0.0]],
            "num_gpus": 0,
        }
    )
    assert config.lambda_ == 0.8
    assert config.lr == [[0, 1e-3], [100, 0.0]]  # a schedule is what is meant where both are given
    assert config.entropy_coeff == [[0, 0.1], [100, 0.0]]
    for order in (["lr", "lr_schedule"], ["lr_schedule", "lr"]):
        given_ = {"lr": 3e-4, "lr_schedule": [[0, 1.0]]}
        assert PPOConfig.from_dict({name: given_[name] for name in order}).lr == [[0, 1.0]]
    assert PPOConfig.from_dict({"lr": 0.5, "lr_schedule": None}).lr == 0.5
    config.num_workers = 3
    config["sgd_minibatch_size"] = 32
    assert (config.num_env_runners, config.minibatch_size) == (3, 32)


def test_conflicts_and_refusals() -> None:
    with raises("'num_env_runners' is given twice with different values"):
        PPOConfig.from_dict({"num_workers": 1, "num_env_runners": 2})
    assert PPOConfig.from_dict({"num_workers": 2, "num_env_runners": 2}).num_env_runners == 2
    with raises("framework = 'tf2' is not supported; it is always 'torch' here: everything here"):
        PPOConfig().framework("tf2")
    with raises("eager_max_retraces is not supported: TensorFlow only"):
        PPOConfig().framework("torch", eager_max_retraces=5)
    with raises("enable_rl_module_and_learner = 'no' is not supported; it is always True"):
        PPOConfig().api_stack(enable_rl_module_and_learner="no")
    with raises("rollout_fragment_length = 'automatic' is not allowed; allowed: int or 'auto', >="):
        PPOConfig().env_runners(rollout_fragment_length="automatic")
    with raises("batch_mode = 'whole_episodes' is not allowed; allowed: .*'complete_episodes'"):
        PPOConfig().rollouts(batch_mode="whole_episodes")
    with raises("twin_q = True is no setting of PPO; it belongs to CQL, IQL, SAC"):
        PPOConfig().training(twin_q=True)
    with raises("horizon is not supported: use env_config={'max_episode_steps'"):
        PPOConfig.from_dict({"horizon": 100})
    config: Any = PPOConfig()
    with raises("_tf_policy_handles_more_than_one_loss is not supported: TensorFlow only"):
        config._tf_policy_handles_more_than_one_loss = 2
    config._fake_gpus = True
    assert config.fake_gpus is True


# ------------------------------------------------------------------ dicts, copies, freezing


def test_dict_shims() -> None:
    config = PPOConfig().training(lr=0.1)
    assert dict(config.items()) == config.to_dict()
    assert list(config.keys()) == list(PPOConfig.settings())
    assert list(config.values())[list(config.keys()).index("lr")] == 0.1
    assert config["lr"] == config.get("lr") == config.pop("lr") == config.lr == 0.1
    assert "lr" in config and "num_workers" in config and "nothing" not in config
    assert config.get("nothing") is None and config.get("nothing", 5) == 5
    config["lr"] = 0.2
    assert config.lr == 0.2
    with raises("unknown setting 'lrr' of PPOConfig"):
        _ = config["lrr"]
    with raises("unknown setting 'lrr' of PPOConfig"):
        config["lrr"] = 1
    assert config.is_multi_agent() is False
    with pytest.raises(AttributeError, match=r"PPOConfig\.lrr does not exist"):
        _ = config.lrr


def test_freeze_and_copy() -> None:
    config = PPOConfig().environment("CartPole-v1", env_config={"a": [1]})
    assert not config.is_frozen
    config.freeze()
    assert config.is_frozen
    for change in (
        lambda: config.training(lr=0.1),
        lambda: setattr(config, "lr", 0.1),
        lambda: config.update_from_dict({"lr": 0.1}),
        lambda: config.__setitem__("num_workers", 1),
    ):
        with raises("this config is frozen"):
            change()
    assert config.lr == PPOConfig().lr
    assert config.copy().is_frozen and config.copy(copy_frozen=True).is_frozen
    thawed = config.copy(copy_frozen=False)
    assert thawed == config and thawed is not config
    thawed.training(lr=0.1).env_config["a"].append(2)
    assert config.env_config == {"a": [1]}
    assert PPOConfig().copy(copy_frozen=True).is_frozen
    assert not PPOConfig().copy().is_frozen


def test_config_pickles() -> None:
    """Actors get it through Ray."""
    config = PPOConfig().environment("CartPole-v1").training(lr=[[0, 0.1]])
    config.freeze()
    copied = pickle.loads(pickle.dumps(config))
    assert copied == config and copied.is_frozen


SPACE = gym.spaces.Box(-1, 1, (2,), np.float32)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "lr": st.floats(0, 1) | st.just([[0, 0.1], [10, 0.2]]),
            "gamma": st.floats(0, 1),
            "num_env_runners": st.integers(0, 100),
            "env": st.sampled_from(["CartPole-v1", gym.Env, None]),
            "env_config": st.dictionaries(st.text(), st.integers() | st.none()).filter(
                lambda d: set(d) != {"grid_search"}
            ),
            "clip_rewards": st.sampled_from([None, True, False, 1.0, [-1, 1]]),
            "rollout_fragment_length": st.just("auto") | st.integers(1, 1000),
            "model": st.fixed_dictionaries(
                {}, optional={"fcnet_hiddens": st.lists(st.integers(1, 999))}
            ),
            "observation_space": st.sampled_from([None, SPACE]),
            "evaluation_config": st.sampled_from([{}, {"explore": True}]),
            "vf_clip_param": st.none() | st.floats(0, exclude_min=True, allow_infinity=False),
        },
    )
)
def test_round_trip_through_dicts(values: dict[str, Any]) -> None:
    config = PPOConfig.from_dict(values)
    as_dict = config.to_dict()
    assert as_dict == PPOConfig().to_dict() | values
    again = PPOConfig.from_dict(as_dict)
    assert again == config
    assert again.to_dict() == as_dict
    assert PPOConfig().update_from_dict(as_dict) == config
    assert list(as_dict) == list(PPOConfig.settings())


def test_to_dict_is_independent() -> None:
    config = PPOConfig().environment(env_config={"a": [1]})
    config.to_dict()["env_config"]["a"].append(2)
    assert config.env_config == {"a": [1]}
    given_ = {"env_config": {"a": [1]}}
    config = PPOConfig.from_dict(given_)
    config.env_config["a"].append(2)
    assert given_ == {"env_config": {"a": [1]}}


def test_plain_config_is_json() -> None:
    config = PPOConfig().environment("CartPole-v1").training(lr=np.float32(0.5), num_epochs=2.0)
    as_dict = json.loads(json.dumps(config.to_dict()))
    assert PPOConfig.from_dict(as_dict) == config


def test_overrides() -> None:
    assert PPOConfig.overrides(lr=0.1, num_sgd_iter=2) == {"lr": 0.1, "num_epochs": 2}
    with raises("unknown setting 'lrr'"):
        PPOConfig.overrides(lrr=0.1)
    with raises("lr = -1"):
        PPOConfig.overrides(lr=-1)


def test_merge_configs() -> None:
    merged = PPO.merge_algorithm_configs(
        {"lr": 0.1, "num_workers": 1, "model": {"fcnet_hiddens": [8]}},
        {"num_env_runners": 2, "model": {"vf_share_layers": True}},
    )
    assert merged == {
        "lr": 0.1,
        "num_env_runners": 2,
        "model": {"fcnet_hiddens": [8], "vf_share_layers": True},
    }


# ------------------------------------------------------------------ evaluation


def test_evaluation_config() -> None:
    config = PPOConfig().environment("CartPole-v1", env_config={"max_episode_steps": 500})
    config.evaluation(evaluation_config={"env_config": {"max_episode_steps": 50}, "explore": True})
    evaluation = config.get_evaluation_config_object()
    assert evaluation.env_config == {"max_episode_steps": 50}
    assert (evaluation.env, evaluation.explore) == ("CartPole-v1", True)
    assert config.env_config == {"max_episode_steps": 500}
    for changes in ({}, {"env_config": {}}, {"num_envs_per_env_runner": 1}, PPOConfig()):
        other = PPOConfig().evaluation(evaluation_config=changes)
        assert other.get_evaluation_config_object().explore is False
    config.freeze()
    assert not config.get_evaluation_config_object().is_frozen


def test_evaluation_config_takes_only_what_has_an_effect() -> None:
    def check(name: str) -> None:
        value = PPOConfig.settings()[name].default
        with raises(
            f"evaluation_config: '{name}' has no effect on an evaluation; allowed: env, env_c"
        ):
            PPOConfig().evaluation(evaluation_config={name: value})

    check_rows(
        check,
        sorted(
            {*PPOConfig.settings()}
            - {*EVALUATION_SETTINGS, "evaluation_config"}
            - {*PPOConfig.without}  # a default of these is left out everywhere
        ),
    )


def test_evaluation_config_is_checked() -> None:
    with raises("unknown setting 'explor' of PPOConfig; did you mean 'explore"):
        PPOConfig().evaluation(evaluation_config={"explor": False})
    with raises("explore = 1 is not allowed; allowed: bool"):
        PPOConfig().evaluation(evaluation_config={"explore": 1})


# ------------------------------------------------------------------ fragment lengths


@given(
    batch=st.integers(1, 5000),
    num_env_runners=st.integers(0, 7),
    num_envs=st.integers(1, 20),
)
def test_fragments_of_all_runners_make_the_batch(
    batch: int, num_env_runners: int, num_envs: int
) -> None:
    config = PPOConfig.from_dict(
        {
            "train_batch_size": batch,
            "num_env_runners": num_env_runners,
            "num_envs_per_env_runner": num_envs,
        }
    )
    runners = range(1, num_env_runners + 1) if num_env_runners else [0]
    lengths = [config.get_rollout_fragment_length(index) for index in runners]
    total = sum(lengths) * num_envs
    assert min(lengths) >= 1
    # Never less than asked for, and never a whole step of all slots more.
    assert batch <= total
    if batch >= config.num_slots:
        assert total - batch < num_envs
        assert max(lengths) - min(lengths) <= 1


def test_fragments_by_hand() -> None:
    config = PPOConfig.from_dict(
        {"train_batch_size": 2050, "num_env_runners": 3, "num_envs_per_env_runner": 8}
    )
    assert [config.get_rollout_fragment_length(i) for i in (1, 2, 3)] == [86, 86, 85]
    assert config.env_runners(rollout_fragment_length=50).get_rollout_fragment_length(2) == 50
    assert PPOConfig().training(train_batch_size=2048).get_rollout_fragment_length() == 256


# ------------------------------------------------------------------ validate


def test_validate() -> None:
    def check(values: dict[str, Any], message: str) -> None:
        config = PPOConfig.from_dict({"env": "CartPole-v1"} | values)
        with raises(message):
            config.validate()

    rows = [
        ({"env": None}, "env is not set: give an environment, e.g. env='CartPole-v1'"),
        (
            {"minibatch_size": 300, "train_batch_size": 200},
            r"minibatch_size = 300 is larger than the train batch of 200 steps \(train_batch_size",
        ),
        ({"clip_rewards": [1, 2, 3]}, r"clip_rewards = \[1, 2, 3\] is not .* or two bounds"),
        (
            {"rollout_fragment_length": 100, "train_batch_size": 2048},
            r"rollout_fragment_length = 100 x 8 slots samples 800 steps, the train batch is 2048: "
            r"set rollout_fragment_length='auto' or train_batch_size_per_learner=800",
        ),
        ({"video_interval": 5}, "video_interval = 5 has no effect without record_env"),
        ({"use_critic": False}, "use_gae = True needs a value function: set use_critic=True"),
        ({"gamma": tune.uniform(0, 1)}, "gamma: a search domain can be swept"),
    ]
    check_rows(check, rows)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"rollout_fragment_length": 240, "train_batch_size": 2048},  # within 10%
        {"use_critic": False, "use_gae": False},
        {"minibatch_size": None},
        {"clip_rewards": [-1, 1]},
        {"video_interval": 5, "record_env": True},
    ],
)
def test_valid(values: dict[str, Any]) -> None:
    PPOConfig.from_dict({"env": "CartPole-v1"} | values).validate()


def test_build_refuses_what_has_no_algorithm() -> None:
    with raises("AlgorithmConfig belongs to no algorithm; use e.g. PPOConfig"):
        AlgorithmConfig().build()
    with raises("logger_creator"):
        PPOConfig().build("CartPole-v1", logger_creator=lambda: None)  # type: ignore[arg-type]
    with raises("env is not set"):
        PPOConfig().build()


def test_build_takes_a_copy_or_the_config_itself() -> None:
    config = PPOConfig().environment("CartPole-v1")
    with config.build() as algorithm:
        assert algorithm.config == config
    assert not config.is_frozen
    with config.build(env="Pendulum-v1", use_copy=False) as algorithm:
        assert algorithm.config.env == "Pendulum-v1"
        assert algorithm.workers is algorithm.env_runners
        indices = algorithm.workers.foreach_worker_with_index(lambda index, runner: (index, runner))
        assert indices == [(0, algorithm.workers.local_worker())]


def test_a_value_is_checked_once_when_it_is_set_and_not_when_it_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[str] = []
    check = Setting.check
    config = PPOConfig(env="CartPole-v1")

    def counting(self: Setting, value: Any) -> Any:
        checked.append(self.name)
        return check(self, value)

    monkeypatch.setattr(Setting, "check", counting)
    config.update_from_dict({"lr": 0.1, "model": {"fcnet_hiddens": [8]}})
    assert sorted(checked) == ["fcnet_hiddens", "lr", "model"]
    checked.clear()
    copied = config.copy(copy_frozen=False)
    copied.model["fcnet_hiddens"].append(9)
    assert not checked
    assert config.model == {"fcnet_hiddens": [8]} and copied.lr == 0.1


def test_who_plays_in_evaluations_is_one_of_the_policies() -> None:
    config = PPOConfig().environment("tic_tac_toe")
    config.multi_agent(policies=["main"], policy_mapping_fn={"*": "main"})
    config.evaluation(evaluation_config={"policy_mapping_fn": {"player_1": "main", "*": "other"}})
    with raises("evaluation_config: policy_mapping_fn: there is no policy 'other'"):
        config.validate()
    alone = PPOConfig().environment("CartPole-v1")
    alone.evaluation(evaluation_config={"policy_mapping_fn": {"*": "default_policy"}})
    with raises("evaluation_config: policy_mapping_fn = .* has no effect without policies"):
        alone.validate()


def test_what_only_equals_a_default_is_checked() -> None:
    for own_explore in ({"explore": 0}, {"explore": np.float64(0.0)}):
        with pytest.raises(ConfigError, match=r"explore = 0(\.0)? is not allowed; allowed: bool"):
            PPOConfig(evaluation_config=own_explore)
    own: dict[str, object] = {}
    config = PPOConfig(env_config=own, evaluation_config={"explore": np.bool_(False)})
    assert config.env_config is not own
    assert type(config.evaluation_config["explore"]) is bool
