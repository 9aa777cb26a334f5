"""`replay_buffer_config`: names, ranges, and what is refused."""

import itertools
from typing import Any

import pytest
from every_row import check_rows
from ray import tune
from refusals import Golden, refusals

from trainables.core.config.replay import ReplayBufferConfig

check = ReplayBufferConfig.check


def test_the_references_type_names() -> None:
    def check_row(prioritized: str, episode: str, multi_agent: str) -> None:
        name = f"{multi_agent}{prioritized}{episode}ReplayBuffer"
        config = ReplayBufferConfig(**check({"type": name}))
        assert config.prioritized == bool(prioritized)

    check_rows(
        check_row, itertools.product(["", "Prioritized"], ["", "Episode"], ["", "MultiAgent"])
    )


def test_defaults() -> None:
    config = ReplayBufferConfig()
    assert not config.prioritized
    assert (config.capacity, config.alpha, config.beta, config.eps) == (50_000, 0.6, 0.4, 1e-6)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"capacity": 7, "storage": "uint8"},
        {"type": "PrioritizedEpisodeReplayBuffer", "alpha": 0.5, "beta": [[0, 0.4], [10, 1.0]]},
    ],
)
def test_round_trip(values: dict[str, Any]) -> None:
    checked = check(values)
    assert checked == values == check(checked)
    config = ReplayBufferConfig(**checked)
    assert ReplayBufferConfig(**check(config.to_dict())) == config
    assert check(config.to_dict()) == config.to_dict()


def test_older_names_and_constants() -> None:
    checked = check(
        {
            "_enable_replay_buffer_api": True,
            "type": "MultiAgentPrioritizedReplayBuffer",
            "prioritized_replay_alpha": 0.7,
            "prioritized_replay_beta": 0.5,
            "prioritized_replay_eps": 1e-5,
            "replay_sequence_length": 1,
            "storage_unit": "timesteps",
        }
    )
    kind = "MultiAgentPrioritizedReplayBuffer"
    assert checked == {"type": kind, "alpha": 0.7, "beta": 0.5, "eps": 1e-5}


PRIORITIZED = {"type": "PrioritizedReplayBuffer"}


def test_what_is_refused(golden: Golden) -> None:
    cases = [
        {"type": "Replaybuffer"},
        {"capacity": 1},
        {"capacity": "many"},
        {"capcity": 100},
        {"storage": "zip"},
        {"_enable_replay_buffer_api": False},
        {"replay_sequence_length": 20},
        {"storage_unit": "episodes"},
        {"replay_batch_size": 32},
        {"learning_starts": 9},
        {**PRIORITIZED, "alpha": -0.1},
        {**PRIORITIZED, "alpha": 1.5},
        {**PRIORITIZED, "beta": 1.1},
        {**PRIORITIZED, "beta": [[0, 0.4], [10, 2.0]]},
        {**PRIORITIZED, "beta": [[5, 0.4], [10, 1.0]]},
        {**PRIORITIZED, "eps": 0},
        {**PRIORITIZED, "alpha": 0.5, "prioritized_replay_alpha": 0.6},
    ]
    golden("replay_config/what_is_refused", refusals(lambda values: check(values), cases))


def test_search_domains_pass() -> None:
    values = {"capacity": tune.choice([10, 20]), "storage": {"grid_search": ["native", "uint8"]}}
    assert check(values) == values
    values = {"type": tune.choice(["ReplayBuffer", "PrioritizedReplayBuffer"]), "alpha": 0.5}
    assert check(values) == values


def test_a_sweep_over_the_type_may_fix_what_belongs_to_one() -> None:
    for kind in ("ReplayBuffer", "PrioritizedReplayBuffer"):
        config = ReplayBufferConfig(**check({"type": kind, "alpha": 0.3, "beta": 0.9}))
        assert (config.alpha, config.beta) == (0.3, 0.9)
