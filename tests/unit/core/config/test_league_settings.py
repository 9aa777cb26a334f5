"""The settings of a league, and what goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from trainables import PPO, PPOConfig
from trainables.core.errors import ConfigError


@pytest.mark.parametrize(
    ("league", "told"),
    [
        ("always", "league = 'always' .*a dict"),
        ({"freeze_evry": 3}, "freeze_evry.*freeze_every"),
        ({"freeze_every": 0}, "league: freeze_every = 0 .*>= 1"),
        ({"freeze_every": None}, "both None"),
        ({"learners": {"main": "mein"}}, "'main' = 'mein' .*main_exploiter"),
        ({"learners": {"a": "league_exploiter"}}, "none has the role 'main'"),
        ({"opponents": "hardest"}, "opponents = 'hardest' .*prioritized"),
        ({"opponents": "uniform", "priority_power": 3.0}, "priority_power has no effect"),
        ({"max_copies": 1}, "max_copies = 1"),
    ],
)
def test_settings_inside(league: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        PPOConfig().multi_agent(policies=["main"], league=league)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"policies": ["other"]}, "'main' is no policy that learns; policies: other"),
        (
            {"policies": {"main": {"policy_class": "random"}, "b": None}},
            "'main' is no policy that learns",
        ),
        ({"policy_mapping_fn": {"*": "main"}}, "policy_mapping_fn does not go with league"),
        ({"policies": ["main", "b"], "policies_to_train": ["b"]}, "not in policies_to_train"),
        ({"policies_to_train": lambda policy_id, batch: True}, "is a function"),
    ],
)
def test_with_other_settings(more: dict[str, Any], told: str) -> None:
    config = PPOConfig().environment("matrix_game")
    config.multi_agent(**{"policies": ["main"], "league": {}, **more})
    with pytest.raises(ConfigError, match=told):
        config.validate()


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
