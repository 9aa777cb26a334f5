"""What is recorded of several agents is what training samples of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from telling_agents import PATTERNS
from tiers import covering

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.evaluation import record_agents as recording
from trainables.runtime.evaluation.record_agents import record_agents, uniform_agents
from trainables.runtime.offline.episode import Episode
from trainables.runtime.offline.inputs import find_source

SLOTS, STEPS = 2, 12  # the first episode of each slot is over by then
ENV_CONFIG = {"num_agents": 3, "length": 4}
Rows = dict[tuple[float, ...], float]


def recorded(folder: Path, pattern: str, *, length: int = 4, **more: Any) -> list[Episode]:
    settings = {"num_envs_per_env_runner": SLOTS}
    env_config = {**ENV_CONFIG, "length": length}
    config = uniform_agents(PATTERNS[pattern], env_config, **settings)
    assert config is not None
    given = {"num_episodes": SLOTS, "name": "test", **more}
    num_steps = record_agents(config, {}, folder, **given).num_steps
    source = find_source(folder / "random")
    spaces = source.spaces()
    assert spaces is not None
    found = list(source.episodes(spaces))
    assert sum(map(len, found)) == num_steps
    return found


def rewards_by_place(obs: np.ndarray, rewards: np.ndarray) -> Rows:
    """Rewards by slot, episode, step and agent, of first episodes, which observations tell."""
    rows = zip(obs.tolist(), rewards.tolist(), strict=True)
    return {tuple(place): reward for place, reward in rows if place[1] == 0}


FIVE = ["together", "turns", "rewarded while others act", "join later", "end one by one"]


@pytest.mark.parametrize(("pattern", "format_"), covering(FIVE, ["parquet", "json"], strength=1))
def test_rows_are_those_that_training_samples(tmp_path: Path, pattern: str, format_: str) -> None:
    written: Rows = {}
    for episode in recorded(tmp_path, pattern, format=format_):
        assert episode.terminated != episode.truncated
        assert {f"agent_{int(row[3])}" for row in episode.obs} == {episode.agent_id}
        assert episode.module_id == "random"
        written |= rewards_by_place(episode.obs[:-1], episode.rewards)
    config = PPOConfig().environment(PATTERNS[pattern], env_config=ENV_CONFIG)
    config.env_runners(num_envs_per_env_runner=SLOTS, rollout_fragment_length=STEPS)
    config.training(train_batch_size_per_learner=SLOTS * STEPS, minibatch_size=8)
    with config.build() as algo:
        rollout = algo.sample()["default_policy"]
    is_row = rollout.valid
    sampled = rewards_by_place(rollout.obs[:-1][is_row], rollout.rewards[is_row])
    assert written == sampled
    assert len(written) >= 8


def test_pieces_of_a_long_episode_are_one_again(tmp_path: Path, monkeypatch: Any) -> None:
    whole = recorded(tmp_path / "whole", "together", length=40)
    monkeypatch.setattr(recording, "_Recording", partial(recording._Recording, most_bytes=100))
    pieces = recorded(tmp_path / "pieces", "together", length=40)
    assert len(whole) == len(pieces) == 6
    for one, other in zip(sorted(whole, key=told), sorted(pieces, key=told), strict=True):
        np.testing.assert_array_equal(one.obs, other.obs)
        np.testing.assert_array_equal(one.rewards, other.rewards)
        assert (one.terminated, one.truncated) == (other.terminated, other.truncated)


def told(episode: Episode) -> tuple[str, str]:
    return episode.episode_id, episode.agent_id


def test_an_episode_that_is_cut_off_is_truncated(tmp_path: Path) -> None:
    found = recorded(tmp_path, "together", time_limit=2)
    assert {(len(e), e.terminated, e.truncated) for e in found} == {(2, False, True)}


def test_a_format_without_agents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"'minari' .* no place for agents' ids; allowed: parquet"
    ):
        recorded(tmp_path, "together", format="minari")
