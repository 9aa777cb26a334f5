"""`exploration_config` with an intrinsic reward: what is refused, and what the rest means."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from every_row import check_rows
from ray import tune
from refusals import Golden, refusals

from trainables import (
    A2CConfig,
    AlgorithmConfig,
    CQLConfig,
    DQNConfig,
    IMPALAConfig,
    PPOConfig,
    SACConfig,
)
from trainables.core.config.exploration import (
    INTRINSIC_OPTIONS,
    OPTIONS,
    ExplorationConfig,
    how_actions_are_chosen,
    is_intrinsic,
)
from trainables.core.errors import ConfigError
from trainables.registry import get_algorithm

TYPES = ("Curiosity", "RND", "Counts")
CURIOSITY = {"type": "Curiosity"}
EPSILON = {"type": "EpsilonGreedy", "final_epsilon": 0.1}
LEARNER_DICT = {"intrinsic_reward_coeff": 0.05, "forward_loss_weight": 0.2}
MEANT = {"type": "Curiosity", "normalize_bonus": False, "eta": 0.05, "beta": 0.2}

REFUSED: list[dict[str, Any]] = [
    {"type": "RND", "beta": 0.1},
    {"type": "Counts", "lr": 0.1},
    {"type": "Curiosity", "hash_bits": 8},
    {"type": "Curiosity", "temperature": 1.0},
    {"type": "Curiosty"},
    {"type": "RND", "ete": 1.0},
    {"type": "RND", "eta": -0.1},
    {"type": "Curiosity", "beta": 1.5},
    {"type": "RND", "intrinsic_gamma": 1.0},
    {"type": "Counts", "hash_bits": 63},
    {"type": "Counts", "table_size": 1},
    {"type": "RND", "predictor_hiddens": [0]},
    {"type": "RND", "feature_net_config": {"use_lstm": True}},
    {"type": "Curiosity", "feature_net_config": {"fcnet_hidden": [8]}},
    {"type": "Curiosity", "feature_net_config": {"fcnet_activation": "rely"}},
    {"type": "RND", "feature_net_config": {"custom_model": "a:b", "fcnet_activation": "elu"}},
    *[{"type": "Curiosity", "sub_exploration": {"type": kind}} for kind in TYPES],
    {"type": "RND", "sub_exploration": {"type": "StochasticSampling", "eta": 0.1}},
    {"type": "RND", "sub_exploration": {"type": "EpsilonGreedy"}},
    {"type": "RND", "sub_exploration": {"random_timesteps": 5}},
]


def test_what_is_refused(golden: Golden) -> None:
    texts = refusals(lambda given: PPOConfig().exploration(exploration_config=given), REFUSED)
    golden("intrinsic_settings/what_is_refused", texts)


def test_who_can_have_no_intrinsic_reward(golden: Golden) -> None:
    def act(kind: str, algorithm: str) -> None:
        get_algorithm(algorithm).config_class().exploration(exploration_config={"type": kind})

    cases = itertools.product(TYPES, ("CQL", "IQL", "BC", "MARWIL", "DreamerV3"))
    golden("intrinsic_settings/who_can_have_no_intrinsic_reward", refusals(act, cases))


def test_who_has_no_second_value_function(golden: Golden) -> None:
    def act(kind: str, algorithm: str) -> None:
        config = get_algorithm(algorithm).config_class()
        config.exploration(exploration_config={"type": kind, "intrinsic_gamma": None})
        config.exploration(exploration_config={"type": kind, "intrinsic_gamma": 0.9})

    cases = itertools.product(TYPES, ("IMPALA", "APPO", "DQN", "SAC"))
    golden("intrinsic_settings/who_has_no_second_value_function", refusals(act, cases))


@pytest.mark.parametrize("config_class", [PPOConfig, A2CConfig])
def test_who_has_one(config_class: type[AlgorithmConfig]) -> None:
    given = {"type": "RND", "intrinsic_gamma": 0.9}
    config = config_class().environment("CartPole-v1").exploration(exploration_config=given)
    config.validate()
    intrinsic = config.resolve().intrinsic
    assert intrinsic is not None and intrinsic.intrinsic_gamma == 0.9


def test_drawn_rows_are_steps() -> None:
    def check(config_class: type[AlgorithmConfig], env: str, n_step: Any) -> None:
        config = config_class().environment(env).training(n_step=n_step)
        config.validate()
        config.exploration(exploration_config={"type": "RND"})
        with pytest.raises(
            ConfigError, match=r"n_step = .*3.* is not possible .* of the type 'RND'.*; allowed: 1$"
        ):
            config.validate()
        config.training(n_step=1).validate()

    rows = [
        (DQNConfig, "CartPole-v1", 3),
        (DQNConfig, "CartPole-v1", [1, 3]),
        (SACConfig, "Pendulum-v1", 3),
    ]
    check_rows(check, rows)


# ------------------------------------------------------------------ what the parts mean


def test_sub_exploration_says_how_actions_are_chosen() -> None:
    given = {"type": "RND", "eta": 0.3, "sub_exploration": {"type": "SoftQ", "temperature": 2.0}}
    config = DQNConfig().environment("CartPole-v1").exploration(exploration_config=given)
    config.validate()
    resolved = config.resolve()
    assert resolved.exploration == ExplorationConfig(type="SoftQ", temperature=2.0)
    assert resolved.intrinsic == ExplorationConfig.of(given)
    assert (resolved.intrinsic.type, resolved.intrinsic.eta) == ("RND", 0.3)


def test_without_it_they_are_chosen_as_ever() -> None:
    own_types = {
        PPOConfig: "StochasticSampling",
        SACConfig: "StochasticSampling",
        DQNConfig: "EpsilonGreedy",
        IMPALAConfig: "StochasticSampling",
    }
    for (config_class, own), kind in itertools.product(own_types.items(), TYPES):
        config = config_class().exploration(exploration_config={"type": kind})
        assert config.resolve().exploration == ExplorationConfig(type=own), (config_class, kind)
        assert config_class().resolve().intrinsic is None
        config.exploration(exploration_config={"type": own})
        assert config.resolve().intrinsic is None, (config_class, kind)


def test_options_of_sub_exploration_alone_fit_the_algorithms_own_type() -> None:
    def config(options: dict[str, Any]) -> DQNConfig:
        given = {"type": "Counts", "sub_exploration": options}
        return DQNConfig().environment("CartPole-v1").exploration(exploration_config=given)

    config({"final_epsilon": 0.2}).validate()
    assert config({"final_epsilon": 0.2}).resolve().exploration.final_epsilon == 0.2
    with pytest.raises(ConfigError, match="'temperature' is no option of 'EpsilonGreedy'"):
        config({"temperature": 2.0}).validate()
    with pytest.raises(ConfigError, match="'eta' is no option of 'EpsilonGreedy'"):
        config({"eta": 2.0}).validate()


def test_env_runners_may_choose_each_in_its_own_way() -> None:
    given = {"type": "Counts", "sub_exploration": {"type": "PerWorkerEpsilonGreedy"}}
    config = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
    resolved = config.exploration(exploration_config=given).resolve()
    assert resolved.explores_per_worker and resolved.exploration.type == "EpsilonGreedy"


def test_every_option_of_an_intrinsic_reward_belongs_to_a_type() -> None:
    of_types = {name for options in INTRINSIC_OPTIONS.values() for name in options}
    others = {name for kind in OPTIONS.keys() - INTRINSIC_OPTIONS.keys() for name in OPTIONS[kind]}
    assert of_types == ExplorationConfig.settings().keys() - others - {"type"}
    assert set(INTRINSIC_OPTIONS) == set(TYPES)


def test_what_an_exploration_config_is() -> None:
    sub = {"type": "SoftQ"}
    assert [is_intrinsic({"type": kind}) for kind in (*TYPES, "SoftQ", None)] == [
        *[True] * 3,
        *[False] * 2,
    ]
    assert not is_intrinsic({}) and not is_intrinsic({"type": tune.choice(TYPES)})
    assert how_actions_are_chosen(sub) == sub
    assert how_actions_are_chosen({**CURIOSITY, "sub_exploration": sub}) == sub
    assert how_actions_are_chosen({**CURIOSITY, "sub_exploration": None}) == {}
    assert how_actions_are_chosen(CURIOSITY) == {}


# ------------------------------------------------------------------ the learner's dict


def test_the_learners_dict_is_curiosity_without_a_size() -> None:
    config = PPOConfig().environment("CartPole-v1").training(learner_config_dict=LEARNER_DICT)
    assert config.exploration_config == MEANT
    config.validate()
    intrinsic = config.resolve().intrinsic
    assert intrinsic is not None and (intrinsic.eta, intrinsic.beta) == (0.05, 0.2)
    assert config.resolve().exploration.type == "StochasticSampling"


@pytest.mark.parametrize(
    ("name", "mine"), [("intrinsic_reward_coeff", "eta"), ("forward_loss_weight", "beta")]
)
def test_one_number_of_it_leaves_the_other_what_it_is(name: str, mine: str) -> None:
    config = PPOConfig().training(learner_config_dict={name: 0.5})
    assert config.exploration_config == {**CURIOSITY, "normalize_bonus": False, mine: 0.5}


def test_an_empty_one_says_nothing() -> None:
    assert PPOConfig().training(learner_config_dict={}).exploration_config == {}


@pytest.mark.parametrize("at_once", [False, True])
def test_how_actions_are_chosen_stays_what_it_was(at_once: bool) -> None:
    config = DQNConfig()
    if at_once:
        both = {"exploration_config": EPSILON, "learner_config_dict": LEARNER_DICT}
        config.update_from_dict(both)
    else:
        config.exploration(exploration_config=EPSILON).training(learner_config_dict=LEARNER_DICT)
    assert config.exploration_config == {**MEANT, "sub_exploration": EPSILON}
    assert config.resolve().exploration.final_epsilon == 0.1


def test_as_an_attribute_and_in_a_check_it_means_the_same() -> None:
    config = PPOConfig()
    config.learner_config_dict = dict(LEARNER_DICT)
    assert config.exploration_config == MEANT
    checked = PPOConfig.check({"learner_config_dict": LEARNER_DICT})
    assert checked == {"exploration_config": MEANT}


def test_other_names_are_refused(golden: Golden) -> None:
    cases = ["beta", "eta", "my_own"]
    golden(
        "intrinsic_settings/other_names_are_refused",
        refusals(
            lambda name: PPOConfig().training(learner_config_dict={**LEARNER_DICT, name: 1}), cases
        ),
    )


def test_values_that_are_not_allowed_are_refused_by_the_settings_name() -> None:
    with pytest.raises(ConfigError, match="beta = 2 is not allowed"):
        PPOConfig().training(learner_config_dict={"forward_loss_weight": 2})
    with pytest.raises(ConfigError, match="type = 'Curiosity' is not supported by CQL"):
        CQLConfig().training(learner_config_dict=LEARNER_DICT)


def test_values_that_contradict_each_other_are_refused(golden: Golden) -> None:
    cases = [
        {**CURIOSITY, "eta": 0.1},
        {**CURIOSITY, "beta": 0.5},
        {**CURIOSITY, "normalize_bonus": True},
        {"type": "RND"},
    ]
    golden(
        "intrinsic_settings/values_that_contradict_each_other_are_refused",
        refusals(
            lambda given: PPOConfig().update_from_dict(
                {"exploration_config": given, "learner_config_dict": LEARNER_DICT}
            ),
            cases,
        ),
    )


def test_equal_and_further_values_go_together() -> None:
    given = {**CURIOSITY, "eta": 0.05, "feature_dim": 8}
    config = PPOConfig().exploration(exploration_config=given)
    config.training(learner_config_dict=LEARNER_DICT)
    assert config.exploration_config == {**MEANT, "feature_dim": 8}


# ------------------------------------------------------------------ search domains


def test_search_domains_pass(golden: Golden) -> None:
    def act(given: Any) -> None:
        config = DQNConfig().exploration(exploration_config=given)
        assert config.exploration_config == given
        config.environment("CartPole-v1").validate()

    cases = [
        {"type": "RND", "eta": tune.choice([0.1, 0.2])},
        {"type": "RND", "eta": {"grid_search": [0.1, 0.2]}},
        {"type": tune.choice(["RND", "Curiosity"]), "eta": 0.1},
        {"type": tune.choice(TYPES), "eta": tune.loguniform(1e-3, 1)},
        {"type": "RND", "predictor_hiddens": tune.choice([[8], [16]])},
        {"type": "RND", "feature_net_config": tune.choice([{}, {"fcnet_hiddens": [8]}])},
        {"type": "RND", "feature_net_config": {"fcnet_hiddens": tune.choice([[8], [16]])}},
        {"type": "RND", "sub_exploration": tune.choice([None, {"type": "SoftQ"}])},
        {"type": "RND", "sub_exploration": {"grid_search": [None, {"type": "SoftQ"}]}},
        {"type": "RND", "sub_exploration": {"type": tune.choice(["SoftQ", "EpsilonGreedy"])}},
        {"type": "RND", "sub_exploration": {"type": "SoftQ", "temperature": tune.choice([1, 2])}},
        tune.choice([{}, {"type": "RND"}]),
    ]
    golden("intrinsic_settings/search_domains_pass", refusals(act, cases))


def test_the_learners_dict_may_be_searched() -> None:
    searched = tune.choice([0.1, 0.2])
    config = PPOConfig().training(learner_config_dict={"intrinsic_reward_coeff": searched})
    assert config.exploration_config == {**CURIOSITY, "normalize_bonus": False, "eta": searched}


def test_with_what_is_no_dict_it_cannot_be_joined(golden: Golden) -> None:
    cases = [
        tune.choice([{}, {"type": "RND"}]),
        {"grid_search": [{}, {"type": "RND"}]},
        "Curiosity",
    ]
    golden(
        "intrinsic_settings/with_what_is_no_dict_it_cannot_be_joined",
        refusals(
            lambda exploration: PPOConfig.check(
                {"exploration_config": exploration, "learner_config_dict": LEARNER_DICT}
            ),
            cases,
        ),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"type": "Counts", "hash_bits": 8, "cells_per_deviation": 2.0},
            "no effect with hash_bits",
        ),
        (
            {"type": "RND", "feature_net_config": {"scale_images": False}},
            "scale_images has no effect with normalize_observations",
        ),
    ],
)
def test_options_without_effect_beside_others(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        PPOConfig().exploration(exploration_config=given)


def test_counts_need_features_that_stay_in_their_scale() -> None:
    config = PPOConfig().environment("CartPole-v1")
    config.env_runners(observation_filter="MeanStdFilter")
    config.exploration(exploration_config={"type": "RND"}).validate()
    config.exploration(exploration_config={"type": "Counts"})
    with pytest.raises(ConfigError, match=r"'MeanStdFilter' does not go with .*'Counts'"):
        config.validate()


def test_the_learners_dict_takes_no_other_types_place() -> None:
    config = PPOConfig().exploration(exploration_config={"type": "RND", "feature_dim": 8})
    with pytest.raises(ConfigError, match="'type' of exploration_config is given twice"):
        config.training(learner_config_dict=LEARNER_DICT)


def test_a_later_learners_dict_counts() -> None:
    config = PPOConfig().training(learner_config_dict=LEARNER_DICT)
    config.training(learner_config_dict={"intrinsic_reward_coeff": 0.1})
    assert config.exploration_config == {**MEANT, "eta": 0.1}
