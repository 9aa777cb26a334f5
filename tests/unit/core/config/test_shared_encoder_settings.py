"""The setting `shared_encoders`: its forms, what it means, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import ray.tune as tune
from refusals import Golden, refusals

from trainables import DQNConfig, PolicySpec, PPOConfig
from trainables.core.config.agents.shared_encoders import without_others
from trainables.core.config.policies import encoder_groups
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


def test_forms_that_are_refused(golden: Golden) -> None:
    cases = [
        "a",
        [],
        ["a", "b"],
        [["a"]],
        [["a", "b"], ["b", "c"]],
        [["a", "a"]],
        [["a", "x/y"]],
        [["a", 1]],
    ]
    golden(
        "shared_encoder_settings/forms_that_are_refused",
        refusals(lambda given: several(given), cases),
    )


def test_what_does_not_go_together(golden: Golden) -> None:
    def act(settings: dict[str, Any]) -> None:
        shared = settings.pop("shared_encoders", True)
        several(shared, **settings).validate()

    cases = [
        {"shared_encoders": [["a", "bb"]]},
        {
            "policies": {"a": None, "b": None, "r": {"policy_class": "random"}},
            "shared_encoders": [["a", "r"]],
        },
        {"policies_to_train": ["a", "b"], "shared_encoders": [["b", "c"]]},
        {"policies_to_train": ["a"]},
        {"policies": ["a"]},
        {"algorithm_config_overrides_per_module": {"b": {"model": {"use_lstm": True}}}},
        {"observation_filter": "MeanStdFilter"},
        {"policies": {"a": None, "b": {"config": {"observation_filter": "MeanStdFilter"}}}},
        {"policy_map_capacity": 3},
        {"policies": ["a", "b"], "league": {"learners": {"a": "main", "b": "main_exploiter"}}},
    ]
    golden("shared_encoder_settings/what_does_not_go_together", refusals(act, cases))


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
