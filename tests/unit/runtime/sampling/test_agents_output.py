"""What agents do in training is written as it is sampled, policy by policy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from telling_agents import PATTERNS

from trainables import PPO, BCConfig, DQNConfig, PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.offline.episode import Episode
from trainables.runtime.offline.inputs import find_source

Row = tuple[Any, ...]


def config_of(folder: Path, env: str, **env_config: Any) -> PPOConfig:
    config = PPOConfig().environment(env, env_config=env_config)
    config.multi_agent(policies=["a", "b"], policy_mapping_fn={"agent_0": "a", "*": "b"})
    config.env_runners(num_envs_per_env_runner=2, rollout_fragment_length=13)
    config.training(train_batch_size_per_learner=26, minibatch_size=13, num_epochs=1)
    return config.offline_data(output=str(folder)).debugging(seed=3)


def read(folder: Path) -> list[Episode]:
    source = find_source(folder)
    spaces = source.spaces()
    assert spaces is not None
    return list(source.episodes(spaces))


def rows_of(obs: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> Counter[Row]:
    rows = zip(obs.tolist(), actions.tolist(), rewards.tolist(), strict=True)
    return Counter((*seen, action, reward) for seen, action, reward in rows)


def written(folder: Path) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for episode in read(folder):
        found += rows_of(episode.obs[:-1], episode.actions, episode.rewards)
    return found


def sampled(algo: PPO, times: int, *, left_out: int = 0) -> dict[str, Counter[Row]]:
    """Rows by policy, without the first few time steps."""
    found: dict[str, Counter[Row]] = {"a": Counter(), "b": Counter()}
    for number in range(times):
        for module_id, rollout in algo.sample().items():
            valid = rollout.valid.copy()
            if number == 0:
                valid[:left_out] = False
            columns = rollout.obs[:-1][valid], rollout.actions[valid], rollout.rewards[valid]
            found[module_id] += rows_of(*columns)
    return found


GAMES = [
    ("multi_agent_cartpole", {"num_agents": 3}),
    *(
        (PATTERNS[pattern], {"num_agents": 3, "length": 4})
        for pattern in ("turns", "rewarded while others act", "join later", "end one by one")
    ),
]


@pytest.mark.parametrize(("env", "env_config"), GAMES)
def test_rows_that_are_written_are_those_that_are_sampled(
    tmp_path: Path, env: str, env_config: dict[str, Any]
) -> None:
    with config_of(tmp_path, env, **env_config).build() as algo:
        expected = sampled(algo, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    for module_id in "ab":
        assert written(tmp_path / module_id) == expected[module_id]
        assert expected[module_id].total() > 15
        agents = {episode.agent_id for episode in read(tmp_path / module_id)}
        assert agents == ({"agent_0"} if module_id == "a" else {"agent_1", "agent_2"})


def test_a_restored_run_goes_on_with_the_present_step(tmp_path: Path) -> None:
    with config_of(tmp_path / "one", "multi_agent_cartpole", num_agents=2).build() as algo:
        sampled(algo, 3)
        algo.save(str(tmp_path / "saved"))
        in_whole_files = read(tmp_path / "one" / "a")
        assert in_whole_files and all(e.terminated for e in in_whole_files)
    second = config_of(tmp_path / "two", "multi_agent_cartpole", num_agents=2)
    with second.build() as again:
        again.restore(str(tmp_path / "saved"))
        # What it goes on with was noted by nobody: the first step is left out.
        expected = sampled(again, 3, left_out=1)
    for module_id in "ab":
        assert written(tmp_path / "two" / module_id) == expected[module_id]
        firsts = {episode.first_step > 0 for episode in read(tmp_path / "two" / module_id)}
        assert firsts == {False, True}


def test_policies_learn_from_what_was_written(tmp_path: Path) -> None:
    with config_of(tmp_path, "multi_agent_cartpole", num_agents=3).build() as algo:
        expected = sampled(algo, 4)
    config = BCConfig().offline_data(input_=str(tmp_path), dataset_num_iters_per_learner=2)
    config.multi_agent(policies=["a", "b"], policy_mapping_fn={"agent_0": "a", "*": "b"})
    config.training(train_batch_size_per_learner=16)
    with config.build() as algo:
        algo.train()
        found = {m: store.num_steps for m, store in algo.experience.items()}
    assert found == {m: rows.total() for m, rows in expected.items()}


def test_what_cannot_be_written_is_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"output": lambda context: None}, "output = .* what each policy did is written apart"),
        ({"output": "x", "output_config": {"format": "minari"}}, "format = 'minari' is not supp"),
    ]
    for settings, problem in refused:
        config = DQNConfig().environment("multi_agent_cartpole").multi_agent(policies=["a"])
        with pytest.raises(ConfigError, match=problem):
            config.offline_data(**settings).validate()
