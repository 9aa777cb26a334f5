"""The setting `shared_encoders`: its forms, what it means, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import ray.tune as tune

from trainables import DQNConfig, PolicySpec, PPOConfig
from trainables.core.config.shared_encoders import encoder_groups, without_others
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

ABLE = {"PPO", "A2C", "IMPALA", "APPO"}


def several(shared: Any, **settings: Any) -> PPOConfig:
    config = PPOConfig().environment("multi_agent_cartpole")
    given = {"policies": ["a", "b", "c", "d"], "shared_encoders": shared, **settings}
    return config.update_from_dict(given)


@pytest.mark.parametrize(
    ("given", "stored", "groups"),
    [
        (False, False, []),
        (None, False, []),
        (True, True, [["a", "b", "c", "d"]]),
        ([["a", "c"]], [["a", "c"]], [["a", "c"]]),
        ((("b", "a"), ["d", "c"]), [["b", "a"], ["d", "c"]], [["b", "a"], ["d", "c"]]),
    ],
)
def test_forms(given: Any, stored: Any, groups: list[list[str]]) -> None:
    config = several(given)
    config.validate()
    assert config.shared_encoders == stored
    assert encoder_groups(config) == groups
    assert PPOConfig.from_dict(config.to_dict()).shared_encoders == stored


def test_true_is_all_that_learn() -> None:
    config = several(True, policies_to_train=["c", "a"])
    config.policies = {**config.policies, "still": PolicySpec("random")}
    config.validate()
    assert encoder_groups(config) == [["a", "c"]]
    config.policies_to_train = lambda policy_id, batch=None: policy_id == "a"
    assert encoder_groups(config) == [["a", "b", "c", "d"]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("a", "True: all policies that learn"),
        ([], "True: all policies that learn"),
        (["a", "b"], "allowed: True: all policies that learn"),
        ([["a"]], r"the group \['a'\] has nobody to share with"),
        ([["a", "b"], ["b", "c"]], "'b' is named twice"),
        ([["a", "a"]], "'a' is named twice"),
        ([["a", "x/y"]], "shared_encoders: the policy id 'x/y'"),
        ([["a", 1]], "shared_encoders: the policy id 1"),
    ],
)
def test_forms_that_are_refused(given: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        several(given)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shared_encoders": [["a", "bb"]]}, "no policy 'bb'; policies: a, b"),
        (
            {
                "policies": {"a": None, "b": None, "r": {"policy_class": "random"}},
                "shared_encoders": [["a", "r"]],
            },
            "'r' is written by hand",
        ),
        (
            {"policies_to_train": ["a", "b"], "shared_encoders": [["b", "c"]]},
            "'c' is not in policies_to_train",
        ),
        ({"policies_to_train": ["a"]}, "no effect: only 'a' learns"),
        ({"policies": ["a"]}, "no effect: only 'a' learns"),
        (
            {"algorithm_config_overrides_per_module": {"b": {"model": {"use_lstm": True}}}},
            "'a' and 'b' have different settings of model",
        ),
        ({"observation_filter": "MeanStdFilter"}, "observation_filter = 'MeanStdFilter' of 'a'"),
        (
            {"policies": {"a": None, "b": {"config": {"observation_filter": "MeanStdFilter"}}}},
            "observation_filter = 'MeanStdFilter' of 'b'",
        ),
        ({"policy_map_capacity": 3}, "policy_map_capacity = 3 of 4 policies"),
        (
            {"policies": ["a", "b"], "league": {"learners": {"a": "main", "b": "main_exploiter"}}},
            "does not go with league",
        ),
    ],
)
def test_what_does_not_go_together(settings: dict[str, Any], words: str) -> None:
    shared = settings.pop("shared_encoders", True)
    with pytest.raises(ConfigError, match=f"shared_encoders.*{words}"):
        several(shared, **settings).validate()


def test_own_settings_that_are_no_matter_of_encoders() -> None:
    own = {"a": {"lr": 1e-4, "gamma": 0.9}, "b": {"clip_param": 0.1, "entropy_coeff": 0.1}}
    config = several(True, algorithm_config_overrides_per_module=own)
    config.validate()
    assert config.module_config("a").shared_encoders is False  # it is alone there


def test_who_has_it() -> None:
    """Every algorithm takes it or says why not, whose updates do as its config says."""
    for name in algorithm_names():
        config_class: Any = get_algorithm(name).config_class
        assert config_class.shares_encoders == (name in ABLE)
        assert ("shared_encoders" in config_class.without) == (name not in ABLE)
    with pytest.raises(ConfigError, match=r"shared_encoders = True has no effect on DQN: only the"):
        DQNConfig().multi_agent(policies=["a", "b"], shared_encoders=True)


def test_one_of_ones_own_does_not_take_what_its_updates_leave_out() -> None:
    class Own(PPOConfig):
        shares_encoders = False

    config = Own().environment("multi_agent_cartpole")
    config.multi_agent(policies=["a", "b"], shared_encoders=True)
    with pytest.raises(ConfigError, match=r"not supported by Own.*A2C, APPO, IMPALA, PPO"):
        config.validate()


def test_a_search_domain() -> None:
    config = several(tune.grid_search([True, False, [["a", "b"]]]))
    assert config.to_dict()["shared_encoders"] == {"grid_search": [True, False, [["a", "b"]]]}


@pytest.mark.parametrize(
    ("given", "learners", "left"),
    [
        (True, "ab", True),
        (True, "a", False),
        (False, "ab", False),
        ([["a", "b"], ["c", "d"]], "acd", [["c", "d"]]),
        ([["a", "b", "c"]], "ca", [["a", "c"]]),
        ([["a", "b"]], "a", False),
    ],
)
def test_who_is_left_with_others(given: Any, learners: str, left: Any) -> None:
    assert without_others(given, [*learners]) == left


def test_a_running_trial_keeps_it() -> None:
    assert re.search("learned apart", PPOConfig.why_fixed(["shared_encoders"]) or "")
