"""Which recorded rows a policy learns from, and what is said of data that have none for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from offline_fakes import CARTPOLE, random_episodes
from recorded_data import recorded, write
from telling_agents import PATTERNS

from trainables import BC, CQL, BCConfig, CQLConfig
from trainables.core.errors import ConfigError
from trainables.runtime.offline.agent_rows import NoRowsError, rows_of_policy
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.readers import InputReader

SMALL: dict[str, Any] = {
    "seed": 3,
    "train_batch_size_per_learner": 16,
    "dataset_num_iters_per_learner": 2,
    "model": {"fcnet_hiddens": [8]},
}


def config_of(mapping: Any, policies: Any = ("a", "b")) -> BCConfig:
    return BCConfig(policies=list(policies), policy_mapping_fn=mapping)


def rows_of(folder: Path, mapping: Any, module_id: str, **more: Any) -> list[Episode]:
    source = rows_of_policy(find_source(folder), config_of(mapping, **more), module_id)
    spaces = source.spaces()
    assert spaces is not None
    return list(source.episodes(spaces))


def written(folder: Path, agents: list[str]) -> Path:
    """Write an episode of each agent, of 3, 4, 5, … steps."""
    lengths = list(range(3, 3 + len(agents)))
    pairs = zip(random_episodes(CARTPOLE, lengths), agents, strict=True)
    episodes = [
        Episode(**{**vars(episode), "agent_id": agent, "episode_id": "same"})
        for episode, agent in pairs
    ]
    write(folder, episodes, CARTPOLE)
    return folder


def test_rows_go_by_the_agents_ids(tmp_path: Path) -> None:
    folder = written(tmp_path, ["red_0", "red_1", "blue_0"])
    mapping = {"red_*": "a", "*": "b"}
    assert [len(e) for e in rows_of(folder, mapping, "a")] == [3, 4]
    assert [len(e) for e in rows_of(folder, mapping, "b")] == [5]
    by_number = rows_of(folder, lambda agent: "ab"[int(agent[-1])], "b")
    assert [len(e) for e in by_number] == [4]
    source = find_source(folder)
    digests = {rows_of_policy(source, config_of(mapping), m).digest() for m in "ab"}
    assert len({*digests, source.digest()}) == 3


def test_all_rows_of_a_source_are_the_source_itself(tmp_path: Path) -> None:
    """Who learns from all of them shares what is converted of them."""
    source = find_source(written(tmp_path, ["x", "y"]))
    assert rows_of_policy(source, config_of({"*": "a"}, ["a"]), "a") is source


def test_rows_that_name_nobody_are_those_of_an_only_agent(tmp_path: Path) -> None:
    folder = written(tmp_path, ["", "other"])
    assert [len(e) for e in rows_of(folder, {"agent0": "a", "*": "b"}, "a")] == [3]


def test_a_policy_without_rows_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, ["x", "y"])
    with pytest.raises(NoRowsError, match="of the policy 'b'; agents: x, y; allowed: policy_mapp"):
        rows_of(folder, {"*": "a"}, "b")


def test_an_agent_without_a_policy_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, ["x", "y"])
    with pytest.raises(ConfigError, match="the agent 'y' has no policy; policies: a, b"):
        rows_of(folder, {"x": "a"}, "a")


def test_who_asks_for_the_episode_is_told_that_nobody_knows_it(tmp_path: Path) -> None:
    folder = written(tmp_path, ["x", "y"])
    with pytest.raises(ConfigError, match=r"no episode.episode_id is known.* \(a dict by agents'"):
        rows_of(folder, lambda agent, episode: "ab"[episode.episode_id % 2], "a")


def test_agents_of_two_kinds_learn_from_files_of_two_kinds(tmp_path: Path) -> None:
    env_config = {"num_agents": 2, "length": 4}
    folder = recorded(PATTERNS["two kinds"], env_config)
    config = {"policies": ["a", "b"], "policy_mapping_fn": {"agent_0": "a", "*": "b"}, **SMALL}
    with BC(config={**config, "input_": folder}) as algo:  # the data say the spaces
        found = {m: policy.action_space for m, policy in algo.policies.items()}
        result = algo.train()
    assert found["a"] != found["b"]
    assert {n.split("/")[1] for n in result if n.startswith("learner/")} == {"a", "b"}


def test_a_reader_is_for_one_policy() -> None:
    class Nothing(InputReader):
        def next(self) -> dict[str, Any]:
            raise AssertionError

    given = {"input_": lambda context: Nothing(), "policies": ["a", "b"], "env": "CartPole-v1"}
    with pytest.raises(ConfigError, match=r"several policies \(a, b\): a reader's batches"):
        BC(config={**given, "policy_mapping_fn": {"*": "a"}, "policies_to_train": ["a"]})


def test_other_agents_of_a_policy_are_other_rows(tmp_path: Path) -> None:
    game = {"env": "multi_agent_cartpole", "env_config": {"num_agents": 3}}
    data = recorded(game["env"], game["env_config"])
    config = {**game, **SMALL, "input_": data, "policies": ["a", "b"]}
    config["policy_mapping_fn"] = {"agent_0": "a", "*": "b"}
    with BC(config=config) as algo:
        algo.train()
        before = {m: store.num_steps for m, store in algo.experience.items()}
        mapping = {"agent_0": "c", "agent_1": "b", "*": "d"}
        algo.add_policy("c", policy_mapping_fn={"agent_0": "c", "*": "b"})
        algo.add_policy("d", policy_mapping_fn=mapping)
        algo.remove_policy("a")
        after = {m: store.num_steps for m, store in algo.experience.items()}
        assert after["c"] == before["a"]
        assert after["b"] + after["d"] == before["b"] and min(after.values()) > 0
        algo.train()
        algo.save(str(tmp_path))
        expected = algo.train()["num_env_steps_trained_lifetime"]
        weights = algo.get_weights()
    with BC.from_checkpoint(str(tmp_path), trust=[data]) as again:
        assert again.train()["num_env_steps_trained_lifetime"] == expected
        for module_id, own in again.get_weights().items():
            for name, value in own.items():
                np.testing.assert_array_equal(value, weights[module_id][name])


def test_without_an_environment_no_policy_is_added(tmp_path: Path) -> None:
    folder = written(tmp_path, ["x", "y"])
    config = {"policies": ["a", "b"], "policy_mapping_fn": {"x": "a", "*": "b"}, **SMALL}
    says = r"add_policy: .* allowed: with the setting env"
    with (
        BC(config={**config, "input_": str(folder)}) as algo,
        pytest.raises(ConfigError, match=says),
    ):
        algo.add_policy("c")


def test_the_environment_of_evaluations_says_what_agents_see(tmp_path: Path) -> None:
    plain = DataSpaces(*CARTPOLE)
    data = write(tmp_path, random_episodes(plain, [8, 9]), plain)
    config = CQLConfig().offline_data(input_=data).training(train_batch_size_per_learner=8)
    config.multi_agent(policies=["only"])
    config.evaluation(evaluation_config={"env": "multi_agent_cartpole"}, evaluation_duration=2)
    with CQL(config=config) as algo:
        algo.train()
        assert algo.evaluate()["module/only/episode_return_mean"] > 0
