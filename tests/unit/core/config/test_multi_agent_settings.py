"""Settings of several agents: their forms, what they mean together, and what is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import ray.tune as tune
from every_row import check_rows
from gymnasium.spaces import Box, Discrete
from refusals import Golden, refusals

from trainables import (
    APPOConfig,
    CQLConfig,
    DQNConfig,
    FixedPolicy,
    IMPALAConfig,
    MARWILConfig,
    MultiAgentEnv,
    Policy,
    PolicySpec,
    PPOConfig,
)
from trainables.core.checkpoint import CheckpointError, load_state, save_state
from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.config.agents.module_overrides import module_settings
from trainables.core.config.agents.several_agents import refuse_for_several_agents
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.trust import doubts_of, refuse, resolved

SIGHT, MOVES = Box(-1, 1, (3,), np.float32), Discrete(2)
PLAIN = {"red": PolicySpec(), "blue": PolicySpec()}
OVERRIDES = "algorithm_config_overrides_per_module"


class Still(FixedPolicy):
    """Does nothing."""

    def compute_actions(
        self, observations: Any, rng: np.random.Generator, masks: np.ndarray | None = None
    ) -> Any:
        return np.zeros(len(observations), np.int64)


class OwnPolicy(Policy):
    pass


class Arena(MultiAgentEnv):
    """Two agents of one kind, and one of another."""

    def __init__(self) -> None:
        self.possible_agents = ["a_1", "a_2", "b"]
        self.observation_spaces = {"a_1": SIGHT, "a_2": SIGHT, "b": Discrete(5)}
        self.action_spaces = {"a_1": MOVES, "a_2": MOVES, "b": Discrete(3)}
        super().__init__()


def to_red(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    return "red"


def trains_red(policy_id: str, batch: Any = None) -> bool:
    return policy_id == "red"


def several(**settings: Any) -> PPOConfig:
    config = PPOConfig().environment("CartPole-v1")
    return config.multi_agent(**{"policies": ["red", "blue"], **settings})


# ------------------------------------------------------------------ forms


def test_forms_of_policies() -> None:
    def check(given: Any, expected: Any) -> None:
        found = PPOConfig().multi_agent(policies=given).policies
        assert found == expected
        assert found is None or list(found) == list(expected)
        assert all(isinstance(spec, PolicySpec) for spec in (found or {}).values())

    rows = [
        (["red", "blue"], PLAIN),
        (("red", "blue"), PLAIN),
        ({"red": None, "blue": {}}, PLAIN),
        ({"red": (None, None, None, {}), "blue": [None, None, None, None]}, PLAIN),
        ({"red": PolicySpec()}, {"red": PolicySpec()}),
        ({"red": {"policy_class": "random"}}, {"red": PolicySpec("random")}),
        ({"red": (Policy, SIGHT, MOVES, {})}, {"red": PolicySpec(None, SIGHT, MOVES)}),
        ({"red": PolicySpec("trainables:Policy")}, {"red": PolicySpec()}),
        (
            {"red": (None, SIGHT, MOVES, {"lr": 1})},
            {"red": PolicySpec(None, SIGHT, MOVES, {"lr": 1})},
        ),
        ({"red": PolicySpec(config={"lambda": 0.5})}, {"red": PolicySpec(config={"lambda_": 0.5})}),
        ({"red": PolicySpec(config=PPOConfig(lr=0.1))}, {"red": PolicySpec(config={"lr": 0.1})}),
        ({"red": PolicySpec(Still, config={"a": 1})}, {"red": PolicySpec(Still, config={"a": 1})}),
        (
            {
                "red": SimpleNamespace(
                    policy_class=None, observation_space=SIGHT, action_space=None, config=None
                )
            },
            {"red": PolicySpec(None, SIGHT)},
        ),
        ({"default_policy": (None, None, None, {})}, None),
        (["default_policy"], None),
        ({}, None),
        (None, None),
    ]
    check_rows(check, rows)


def test_a_set_is_sorted() -> None:
    assert list(PPOConfig().multi_agent(policies={"c", "a", "b"}).policies) == ["a", "b", "c"]
    config = several(policies_to_train={"red", "blue"})
    assert config.policies_to_train == ["blue", "red"]


def test_a_spec_has_attributes() -> None:
    spec = PolicySpec("random", action_space=MOVES)
    assert (spec.policy_class, spec.action_space, spec.config) == ("random", MOVES, {})
    assert spec.is_fixed and not PolicySpec().is_fixed
    spec.policy_class = None
    assert spec["policy_class"] is None
    assert repr(PolicySpec(config={"lr": 0.1})) == "PolicySpec(config={'lr': 0.1})"
    assert copy.deepcopy(spec) == pickle.loads(pickle.dumps(spec)) == spec
    assert isinstance(copy.deepcopy(spec), PolicySpec)
    with pytest.raises(AttributeError, match="did you mean 'config'"):
        _ = spec.confg
    with pytest.raises(AttributeError, match=r"PolicySpec\.policy does not exist"):
        spec.policy = 1


def test_simple_settings() -> None:
    config = several(
        count_steps_by="agent_steps",
        policy_map_capacity=None,
        policy_map_cache="cache",
        policy_states_are_swappable=True,
        replay_mode="independent",
        observation_fn=f"{__name__}:to_red",
    ).checkpointing(checkpoint_trainable_policies_only=True)
    assert config.count_steps_by == "agent_steps" and config.policy_map_capacity is None
    assert config.policy_map_cache == "cache" and config.policy_states_are_swappable
    assert config.checkpoint_trainable_policies_only
    config.validate()


def test_the_older_dict() -> None:
    older = {"policies": {"red": (None, SIGHT, MOVES, {})}, "policy_mapping_fn": to_red}
    for config in (
        PPOConfig.from_dict({"multiagent": older}),
        PPOConfig().multi_agent(multiagent=older),
        PPOConfig().update_from_dict({"policies": {}, "multiagent": older}),
    ):
        assert config.policies == {"red": PolicySpec(None, SIGHT, MOVES)}
        assert config["multiagent"]["policy_mapping_fn"] is to_red
        assert "multiagent" in config and config.multiagent["policies"] == config.policies
    config = PPOConfig()
    config["multiagent"] = {"policies": ["red"], "policy_map_cache": None}
    assert list(config.policies) == ["red"]
    config.multiagent = {"count_steps_by": "agent_steps"}
    assert config.count_steps_by == "agent_steps" and list(config.policies) == ["red"]
    with pytest.raises(ConfigError, match="unknown setting 'policy' in multiagent; did you mean"):
        PPOConfig.from_dict({"multiagent": {"policy": 1}})
    with pytest.raises(ConfigError, match="'policies' is given twice with different values"):
        PPOConfig.from_dict({"multiagent": older, "policies": ["blue"]})
    assert PPOConfig.from_dict({"multiagent": {}}) == PPOConfig()


# ------------------------------------------------------------------ copies and files


def test_copies_are_equal_and_apart() -> None:
    config = several(policies={"red": PolicySpec(None, SIGHT, MOVES, {"lr": 0.1}), "blue": None})
    again = PPOConfig.from_dict(config.to_dict())
    for other in (config.copy(), again, pickle.loads(pickle.dumps(config))):
        assert other == config and isinstance(other.policies["red"], PolicySpec)
        other.policies["red"].config["lr"] = 0.5
        assert config.policies["red"].config == {"lr": 0.1}


def stored(config: AlgorithmConfig, folder: Path, trust: list[str]) -> AlgorithmConfig:
    """What comes back of a config that a checkpoint holds."""
    save_state(folder, "checkpoint", {"config": config.to_dict()})
    given = load_state(folder, "checkpoint")["config"]
    settings = PPOConfig.check(given)
    refuse(doubts_of(PPOConfig, settings, besides=("env",)), trust, "it")
    return PPOConfig.from_dict(resolved(settings, trust, "it"))


def test_a_checkpoint_gives_back_what_is_harmless(tmp_path: Path) -> None:
    config = several(
        policies={
            "red": PolicySpec(None, SIGHT, MOVES, {"lr": 0.1, "model": {"fcnet_hiddens": [8]}}),
            "blue": PolicySpec("random"),
            "default_policy": None,
        },
        policy_mapping_fn={"a_*": "red", "*": "blue"},
        policies_to_train=["red"],
        algorithm_config_overrides_per_module={"red": {"gamma": 0.5, "explore": False}},
    )
    assert stored(config, tmp_path, []) == config


def test_code_and_folders_need_trust(tmp_path: Path) -> None:
    def check(given: dict[str, Any], doubt: str, entry: str) -> None:
        entry = entry if entry not in globals() else f"{__name__}:{entry}"
        config = several(**given)
        with pytest.raises(CheckpointError, match=f"what needs trust: {doubt} = ") as raised:
            stored(config, tmp_path, [])
        assert f"trust=['{entry}']" in str(raised.value)
        assert stored(config, tmp_path, [entry]) == config

    rows = [
        ({"policies": {"red": PolicySpec(Still), "blue": None}}, "policies", "Still"),
        (
            {"policies": {"red": PolicySpec("away:Thing", config={"any": "x"}), "blue": None}},
            "policies.red.policy_class",
            "away:Thing",
        ),
        (
            {"policies": {"red": PolicySpec(config={"learner_class": "away:Thing"}), "blue": None}},
            "policies.red.config.learner_class",
            "away:Thing",
        ),
        (
            {OVERRIDES: {"red": {"model": {"custom_model": "away:Thing"}}}},
            f"{OVERRIDES}.red.model.custom_model",
            "away:Thing",
        ),
        ({"policy_mapping_fn": to_red}, "policy_mapping_fn", "to_red"),
        ({"policy_mapping_fn": "away:to_red"}, "policy_mapping_fn", "away:to_red"),
        ({"policies_to_train": trains_red}, "policies_to_train", "trains_red"),
        ({"observation_fn": "away:see"}, "observation_fn", "away:see"),
        ({"policy_map_cache": "/somewhere"}, "policy_map_cache", "policy_map_cache"),
        ({"policy_map_capacity": 10**6}, "policy_map_capacity", "policy_map_capacity"),
    ]
    check_rows(check, rows)


def test_search_domains_lie_anywhere() -> None:
    rate = tune.loguniform(1e-5, 1e-3)
    config = several(
        policies={"red": PolicySpec(config={"lr": rate}), "blue": tune.choice([None, {}])},
        algorithm_config_overrides_per_module={"blue": {"gamma": tune.uniform(0.9, 1)}},
        policies_to_train=tune.choice([["red"], ["blue"]]),
    )
    assert config.policies["red"].config["lr"] is rate
    assert config.to_dict()["policies"]["red"]["config"]["lr"].lower == 1e-5
    with pytest.raises(ConfigError, match=f"policies, policies_to_train, {OVERRIDES}: a search"):
        config.validate()
    drawn = tune.search.variant_generator.generate_variants(config.to_dict())
    trial = PPOConfig.from_dict(next(iter(drawn))[1])
    assert 1e-5 < trial.policies["red"].config["lr"] < 1e-3
    trial.validate()


# ------------------------------------------------------------------ what they mean


def test_what_several_agents_are() -> None:
    assert not PPOConfig().is_multi_agent()
    assert (
        not PPOConfig()
        .multi_agent(policies={"default_policy": {"config": {"lr": 1}}})
        .is_multi_agent()
    )
    assert PPOConfig().multi_agent(policies=["red"]).is_multi_agent()
    assert several().is_multi_agent()


def test_whom_policies_act_for() -> None:
    def check(given: Any, ids: list[str], expected: dict[Any, str]) -> None:
        config = PPOConfig().multi_agent(policy_mapping_fn=given)
        mapping = PolicyMapping(config.policy_mapping_fn, ids)
        assert {agent: mapping(agent, "E", "W") for agent in expected} == expected

    rows = [
        (None, ["red", "blue"], {"red": "red", "blue": "blue"}),
        (None, ["default_policy", "red"], {"red": "red", "green": "default_policy"}),
        (None, ["red"], {"any": "red", 3: "red"}),
        (
            {"*": "red", "a_*": "blue", "a_1": "red"},
            ["red", "blue"],
            {"a_1": "red", "a_2": "blue", "b": "red"},
        ),
        ({0: "red", 1: "blue"}, ["red", "blue"], {0: "red", 1: "blue", "1": "blue"}),
        (to_red, ["red"], {"any": "red"}),
        (f"{__name__}:to_red", ["red"], {"any": "red"}),
        (lambda agent_id: agent_id, ["red"], {"red": "red"}),
        (lambda agent_id, *args, **kwargs: f"{args[0]}", ["E"], {"red": "E"}),
        (lambda agent_id, episode: episode, ["E"], {"red": "E"}),
        (lambda agent_id, **kwargs: kwargs["episode"], ["E"], {"red": "E"}),
        (lambda agent_id, episode, worker: worker, ["W"], {"red": "W"}),
        (lambda agent_id, episode, **kwargs: kwargs["worker"], ["W"], {"red": "W"}),
        (lambda agent_id, *, worker: worker, ["W"], {"red": "W"}),
    ]
    check_rows(check, rows)


def test_an_agent_without_a_policy_is_named(golden: Golden) -> None:
    cases = [None, {"a": "red"}, lambda agent_id: "green"]
    golden(
        "multi_agent_settings/an_agent_without_a_policy_is_named",
        refusals(lambda given: PolicyMapping(given, ["red", "blue"])("x"), cases),
    )


def test_which_policies_are_trained() -> None:
    def check(given: Any, expected: list[bool]) -> None:
        config = several(policies={"red": None, "blue": None, "still": PolicySpec("random")},
                         policies_to_train=given)  # fmt: skip
        _, trains = config.get_multi_agent_setup(env=gym.make("CartPole-v1"))
        assert [trains(policy_id) for policy_id in ("red", "blue")] == expected
        assert not trains("still")
        assert trains("red", "good") is (given != [])

    rows = [
        (None, [True, True]),
        (["red"], [True, False]),
        ([], [False, False]),
        (trains_red, [True, False]),
        (f"{__name__}:trains_red", [True, False]),
        (lambda policy_id, batch: batch == "good", [False, False]),
    ]
    check_rows(check, rows)


def test_the_references_example_of_a_setup() -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .framework("torch")
        .multi_agent(policies={"pol1", "pol2"}, policies_to_train=["pol1"])
    )
    env = gym.make("CartPole-v1")
    policies, is_policy_to_train = config.get_multi_agent_setup(env=env)
    assert is_policy_to_train("pol1") and not is_policy_to_train("pol2")
    expected = PolicySpec(None, env.observation_space, env.action_space, {})
    assert policies == {"pol1": expected, "pol2": expected}
    assert config.policies == {"pol1": PolicySpec(), "pol2": PolicySpec()}  # it stays


def test_a_setup_asks_the_configs_own_environment() -> None:
    config = PPOConfig().environment("CartPole-v1").multi_agent(policies={"pol1", "pol2"})
    env = gym.make("CartPole-v1")
    expected = PolicySpec(None, env.observation_space, env.action_space)
    assert config.get_multi_agent_setup()[0] == {"pol1": expected, "pol2": expected}
    alone, _ = PPOConfig().environment("CartPole-v1").get_multi_agent_setup()
    assert alone == {"default_policy": expected}
    by_agent = {"a_*": "red", "b": "blue"}
    config = several(policy_mapping_fn=by_agent).environment(lambda context: Arena())
    found, _ = config.get_multi_agent_setup()
    assert found["red"] == PolicySpec(None, SIGHT, MOVES)
    assert found["blue"] == PolicySpec(None, Discrete(5), Discrete(3))
    own = {"red": PolicySpec(None, SIGHT, MOVES), "blue": PolicySpec(None, SIGHT, MOVES)}
    config.environment("not-there-v0")  # nobody asks what need not be asked
    assert config.get_multi_agent_setup(policies=own)[0] == own
    with pytest.raises(ConfigError, match="env 'not-there-v0' is unknown"):
        config.get_multi_agent_setup()


def test_where_spaces_come_from() -> None:
    config = several(policy_mapping_fn={"a_*": "red", "b": "blue"})
    found, _ = config.get_multi_agent_setup(env=Arena(), default_policy_class=Policy)
    assert (found["red"].observation_space, found["red"].action_space) == (SIGHT, MOVES)
    assert (found["blue"].observation_space, found["blue"].action_space) == (
        Discrete(5),
        Discrete(3),
    )
    assert found["red"].policy_class is Policy
    spaces = {"red": (Discrete(9), MOVES)}
    found, _ = config.get_multi_agent_setup(env=Arena(), spaces=spaces)
    assert found["red"].observation_space == Discrete(9)
    own = {"red": PolicySpec(None, SIGHT), "blue": PolicySpec(None, None, Discrete(7))}
    config.environment(observation_space=Discrete(4), action_space=Discrete(6))
    found, _ = config.get_multi_agent_setup(policies=own)
    assert found["red"] == PolicySpec(None, SIGHT, Discrete(6))
    assert found["blue"] == PolicySpec(None, Discrete(4), Discrete(7))


def test_a_setup_has_every_policys_settings() -> None:
    config = several(
        policies={"red": {"config": {"lr": 0.1, "gamma": 0.5}}, "blue": None},
        algorithm_config_overrides_per_module={"red": {"gamma": 0.9}, "blue": {"lr": 1}},
    )
    found, _ = config.get_multi_agent_setup(env=gym.make("CartPole-v1"))
    assert found["red"].config == {"lr": 0.1, "gamma": 0.9} and found["blue"].config == {"lr": 1}
    found, _ = PPOConfig().get_multi_agent_setup(spaces={"default_policy": (SIGHT, MOVES)})
    assert found == {"default_policy": PolicySpec(None, SIGHT, MOVES)}


def test_spaces_that_are_not_known_are_named(golden: Golden) -> None:
    cases = [
        ({}, None),
        ({"policy_mapping_fn": {"*": "red"}}, Arena()),
        ({"policy_mapping_fn": {"a*": "red", "b": "red"}}, Arena()),
    ]
    golden(
        "multi_agent_settings/spaces_that_are_not_known_are_named",
        refusals(
            lambda settings, env: (
                several(**settings).environment(None).get_multi_agent_setup(env=env)
            ),
            cases,
        ),
    )


def test_a_policy_without_agents_has_the_spaces_of_all() -> None:
    arena = Arena()
    arena.possible_agents = ["a_1", "a_2"]
    found, _ = several(policy_mapping_fn={"*": "red"}).get_multi_agent_setup(env=arena)
    assert found["blue"] == PolicySpec(None, SIGHT, MOVES)


def test_the_config_of_a_policy() -> None:
    config = several(
        policies={"red": {"config": {"lr": 0.1, "gamma": 0.5}}, "blue": None},
        algorithm_config_overrides_per_module={
            "red": {"gamma": 0.9, "model": {"fcnet_activation": "relu"}}
        },
    ).training(lr=0.2, model={"fcnet_hiddens": [8]})
    red, blue = config.module_config("red"), config.module_config("blue")
    assert (red.lr, red.gamma, blue.lr, blue.gamma) == (0.1, 0.9, 0.2, 0.99)
    assert red.resolve().model.fcnet_hiddens == [8] == blue.resolve().model.fcnet_hiddens
    assert red.resolve().model.fcnet_activation == "relu"
    assert isinstance(red, PPOConfig) and red.is_frozen and not red.is_multi_agent()
    assert red.train_batch_size == config.train_batch_size and red.env == "CartPole-v1"
    assert config.module_config("red") is not red  # it may have changed
    config.freeze()
    assert config.module_config("red") is config.module_config("red")
    assert "_module_configs" not in vars(pickle.loads(pickle.dumps(config)))
    assert "_module_configs" not in vars(config.copy(copy_frozen=False))
    alone = PPOConfig(lr=0.3)
    alone.freeze()
    assert alone.module_config("default_policy") is alone
    with pytest.raises(ConfigError, match="there is no policy 'rd'; policies: red, blue; did you"):
        config.module_config("rd")


def test_another_type_of_exploration_takes_no_options_over() -> None:
    config = DQNConfig().environment("CartPole-v1").multi_agent(policies=["red", "blue"])
    config.exploration(exploration_config={"type": "EpsilonGreedy", "final_epsilon": 0.1})
    config.multi_agent(
        algorithm_config_overrides_per_module={
            "red": {"exploration_config": {"type": "SoftQ", "temperature": 0.5}},
            "blue": {"exploration_config": {"initial_epsilon": 0.5}},
        }
    )
    config.validate()
    assert config.module_config("red").exploration_config == {"type": "SoftQ", "temperature": 0.5}
    assert config.module_config("blue").exploration_config["final_epsilon"] == 0.1


def test_what_policies_may_have_of_their_own() -> None:
    own = module_settings(PPOConfig)
    for name in ("lr", "gamma", "lambda_", "entropy_coeff", "clip_param", "grad_clip", "model",
                 "minibatch_size", "num_epochs", "explore", "exploration_config", "optimizer",
                 "observation_filter", "normalize_actions", "clip_actions"):  # fmt: skip
        assert name in own
    assert "num_epochs" not in module_settings(DQNConfig)
    assert {"n_step", "tau"} < {*module_settings(DQNConfig)}


# ------------------------------------------------------------------ errors


def test_what_is_not_allowed_is_named(golden: Golden) -> None:
    cases = [
        {"policies": "red"},
        {"policies": {"red": 1}},
        {"policies": {"red": (None, None)}},
        {"policies": ["red", "red"]},
        {"policies": [1]},
        {"policies": [""]},
        {"policies": ["a/b"]},
        {"policies": ["a."]},
        {"policies": ["a "]},
        {"policies": ["a\\"]},
        {"policies": {"red": {"clas": 1}}},
        {"policies": {"red": {"policy_class": "Still"}}},
        {"policies": {"red": PolicySpec(int)}},
        {"policies": {"red": PolicySpec(OwnPolicy)}},
        {"policies": {"red": {"action_space": 3}}},
        {"policies": {"red": {"config": {"lr": -1}}}},
        {"policies": {"red": {"config": {"lrr": 1}}}},
        {"policies": {"red": {"config": [1]}}},
        {"policies": {"red": PolicySpec("random", config={"a": 1})}},
        {"policies": {"red": PolicySpec(Still, config=3)}},
        {OVERRIDES: ["red"]},
        {OVERRIDES: {"red": {"env": "x"}}},
        {OVERRIDES: {"red": {"num_env_runners": 1}}},
        {OVERRIDES: {"red": {"rollout_fragment_length": 8}}},
        {OVERRIDES: {"red": {"train_batch_size": 8}}},
        {OVERRIDES: {"red": {"seed": 8}}},
        {OVERRIDES: {"red": {"policies": ["a"]}}},
        {OVERRIDES: {"red": {"num_atoms": 8}}},
        {"policy_mapping_fn": "red"},
        {"policy_mapping_fn": {"a": 1}},
        {"policies_to_train": "red"},
        {"policies_to_train": [1]},
        {"observation_fn": "see"},
        {"count_steps_by": "steps"},
        {"replay_mode": "lockstep"},
        {"policy_map_capacity": 0},
    ]
    golden(
        "multi_agent_settings/what_is_not_allowed_is_named",
        refusals(lambda settings: PPOConfig().multi_agent(**settings), cases),
    )


def test_what_does_not_fit_together_is_named(golden: Golden) -> None:
    cases = [
        {"policies_to_train": ["rad"]},
        {"policy_mapping_fn": {"*": "grey"}},
        {OVERRIDES: {"bleu": {"lr": 1}}},
        {"policies": {"red": None, "blue": PolicySpec("random")}, "policies_to_train": ["blue"]},
        {"policies": {"red": None, "blue": PolicySpec("random")}, OVERRIDES: {"blue": {"lr": 1}}},
        {"policies": {"red": PolicySpec("random")}},
        {OVERRIDES: {"red": {"minibatch_size": 10**6}}},
        {"policies": None, "policies_to_train": ["red"]},
    ]
    golden(
        "multi_agent_settings/what_does_not_fit_together_is_named",
        refusals(lambda settings: several(**settings).validate(), cases),
    )


def test_checkpoints_hold_a_policy() -> None:
    config = several(policies_to_train=[])
    config.validate()
    config.checkpointing(checkpoint_trainable_policies_only=True)
    with pytest.raises(ConfigError, match="leaves no policy for checkpoints; allowed: False"):
        config.validate()


def test_what_several_agents_have_not_is_named(golden: Golden) -> None:
    def act(name: str, value: Any) -> None:
        config = several()
        config[name] = value
        with pytest.raises(ConfigError, match=f"{name} = {value!r} is not supported with several"):
            config.validate()
        alone = PPOConfig().environment("CartPole-v1")
        alone[name] = value
        alone.validate()
        refuse_for_several_agents(alone)  # of an environment whose agents share a policy

    cases = [
        ("batch_mode", "complete_episodes"),
        ("env_task_fn", "mine:task"),
        ("record_env", True),
    ]
    golden("multi_agent_settings/what_several_agents_have_not_is_named", refusals(act, cases))


def test_all_slots_with_several_agents_are_waited_for() -> None:
    config = several().env_runners(remote_worker_envs=True)
    config.validate()
    config.env_runners(remote_env_batch_wait_ms=5)
    says = "remote_env_batch_wait_ms = 5 is not supported .*: all slots are waited for at each step"
    with pytest.raises(ConfigError, match=says):
        config.validate()


def test_data_need_policies_that_agents_ids_tell() -> None:
    config = DQNConfig().environment("CartPole-v1").multi_agent(policies=["red"])
    config.offline_data(input_={"sampler": 0.5, "data/*.json": 0.5})
    config.validate()
    config.multi_agent(policy_mapping_fn=[{"policies": {"*": "red"}}])
    says = r"policy_mapping_fn = .* is not supported with input_ = .*: who acts .* by agents' ids"
    with pytest.raises(ConfigError, match=says):
        config.validate()


@pytest.mark.parametrize("config_class", [MARWILConfig, CQLConfig])
def test_estimates_are_of_one_policy(config_class: type[AlgorithmConfig]) -> None:
    config = config_class().environment("Pendulum-v1").offline_data(input_="data")
    config.evaluation(off_policy_estimation_methods={"is": {"type": "is"}})
    config.validate()
    config.multi_agent(policies=["red"])
    with pytest.raises(ConfigError, match=r"off_policy_estimation_methods .* one policy is worth"):
        config.validate()


def test_fragments_of_several_agents_are_not_compiled() -> None:
    for config in (IMPALAConfig(), APPOConfig()):
        config.environment("multi_agent_cartpole").multi_agent(policies=["red"])
        config.framework(torch_compile_learner=True)
        if isinstance(config, APPOConfig):  # its loss is of rows
            config.validate()
            continue
        with pytest.raises(ConfigError, match="torch_compile_learner = True is not supported"):
            config.validate()
