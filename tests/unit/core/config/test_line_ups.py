"""Line-ups: a mapping of agents that each episode draws."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from refusals import Golden, refusals

from trainables import PPOConfig
from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.errors import ConfigError

LINE_UPS = [
    {"weight": 3, "policies": {"a": "x", "b": "y"}},
    {"policies": {"a": "y", "*": "x"}},
    {"weight": 0, "policies": {"*": "y"}},
]


def drawn(seed: int, worker_index: int = 0, number: int = 2_000) -> list[tuple[str, str]]:
    mapping, worker = PolicyMapping(LINE_UPS, ["x", "y"], seed), SimpleNamespace()
    worker.worker_index = worker_index
    episodes = [AgentsEpisode(i, 0) for i in range(number)]
    return [(mapping("a", e, worker), mapping("b", e, worker)) for e in episodes]


def test_as_often_as_weights_say_and_whole() -> None:
    counts = Counter(drawn(0))
    assert {*counts} == {("x", "y"), ("y", "x")}  # agents of an episode have one line-up
    assert 1_400 < counts["x", "y"] < 1_600


def test_by_seed_env_runner_and_episode_alone() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2) and drawn(1, 1) != drawn(1, 2)
    mapping = PolicyMapping(LINE_UPS, ["x", "y"], 1)
    later = [mapping("a", AgentsEpisode(i, 0)) for i in reversed(range(100))]
    assert later[::-1] == [first for first, _ in drawn(1, number=100)]


def test_round_trip() -> None:
    config = PPOConfig().multi_agent(policies=["x", "y"], policy_mapping_fn=LINE_UPS)
    again = PPOConfig.from_dict(config.to_dict())
    assert again.policy_mapping_fn == config.policy_mapping_fn
    assert again.policy_mapping_fn[1] == {"weight": 1, "policies": {"a": "y", "*": "x"}}


def test_what_is_none(golden: Golden) -> None:
    cases = [
        [],
        [{"weight": 0, "policies": {"a": "x"}}],
        [{"weight": -1, "policies": {"a": "x"}}],
        [{"weight": "many", "policies": {"a": "x"}}],
        [{"policies": {}}],
        [{"policy": {"a": "x"}}],
        ["x"],
    ]
    golden(
        "line_ups/what_is_none",
        refusals(
            lambda given: PPOConfig().multi_agent(policies=["x"], policy_mapping_fn=given), cases
        ),
    )


def test_a_policy_that_does_not_exist() -> None:
    config = (
        PPOConfig()
        .environment("matrix_game")
        .multi_agent(policies=["x"], policy_mapping_fn=[{"policies": {"*": "stranger"}}])
    )
    with pytest.raises(ConfigError, match="stranger"):
        config.validate()
