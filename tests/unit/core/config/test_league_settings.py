"""The settings of a league, and what goes with it."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import Golden, refusals

from trainables import PPO, PPOConfig
from trainables.core.errors import ConfigError


def test_settings_inside(golden: Golden) -> None:
    cases = [
        "always",
        {"freeze_evry": 3},
        {"freeze_every": 0},
        {"freeze_every": None},
        {"learners": {"main": "mein"}},
        {"learners": {"a": "league_exploiter"}},
        {"opponents": "hardest"},
        {"opponents": "uniform", "priority_power": 3.0},
        {"max_copies": 1},
    ]
    golden(
        "league_settings/settings_inside",
        refusals(lambda league: PPOConfig().multi_agent(policies=["main"], league=league), cases),
    )


def test_with_other_settings(golden: Golden) -> None:
    def act(more: dict[str, Any]) -> None:
        config = PPOConfig().environment("matrix_game")
        config.multi_agent(**{"policies": ["main"], "league": {}, **more})
        config.validate()

    cases = [
        {"policies": ["other"]},
        {"policies": {"main": {"policy_class": "random"}, "b": None}},
        {"policy_mapping_fn": {"*": "main"}},
        {"policies": ["main", "b"], "policies_to_train": ["b"]},
        {"policies_to_train": lambda policy_id, batch: True},
    ]
    golden("league_settings/with_other_settings", refusals(act, cases))


@pytest.mark.parametrize(
    ("env", "env_config"),
    [
        ("multi_agent_cartpole", {"num_agents": 3}),
        ("CartPole-v1", {}),
    ],
)
def test_environments_that_are_none(env: str, env_config: dict[str, Any]) -> None:
    config = PPOConfig().environment(env, env_config=env_config)
    config.multi_agent(policies=["main"], league={})
    with pytest.raises(ConfigError, match=f"league: env '{env}'.*two agents with equal spaces"):
        PPO(config)
