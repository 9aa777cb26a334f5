"""`tunescape record`: what it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import cli
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.recording.record import record_folder
from experiments.errors import ExperimentError
from trainables import Policy, PPOConfig
from trainables.runtime.evaluation import recorder
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.inputs import find_source

CARTPOLE = gym.make("CartPole-v1")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    made = Policy(
        CARTPOLE.observation_space, CARTPOLE.action_space, seed=3, metadata={"env": "CartPole-v1"}
    )
    made.save(tmp_path / "policy")
    return tmp_path / "policy"


def episodes_of(folder: Path) -> list[Any]:
    source = find_source(folder)
    spaces = source.spaces()
    assert spaces is not None
    return sorted(source.episodes(spaces), key=lambda e: int(e.episode_id.split("-")[1]))


@pytest.mark.parametrize("format_", ["parquet", "json", "minari"])
def test_the_episodes_are_those_of_an_evaluation(
    policy: Path, tmp_path: Path, format_: str
) -> None:
    if format_ == "minari":
        pytest.importorskip("minari")
    recording = record_folder(policy, tmp_path / "data", episodes=10, format_=format_, seed=5)
    played = evaluate_folder(policy, episodes=10, seed=5)
    item: Any = tmp_path / "data" if format_ != "minari" else f"minari:{tmp_path / 'data'}"
    source = find_source(item)
    spaces = source.spaces()
    assert spaces is not None
    found = sorted((float(e.rewards.sum()), len(e)) for e in source.episodes(spaces))
    assert found == sorted((e.outcome.total, e.outcome.length) for e in played.episodes)
    assert recording.num_steps == sum(length for _, length in found)


def test_rows_are_what_the_environment_gave(policy: Path, tmp_path: Path) -> None:
    record_folder(policy, tmp_path / "data", episodes=4, epsilon=0.5)
    for episode in episodes_of(tmp_path / "data"):
        env = gym.make("CartPole-v1").unwrapped
        env.reset()
        for obs, action, after in zip(episode.obs, episode.actions, episode.obs[1:], strict=False):
            env.state = obs.astype(np.float64)  # type: ignore[attr-defined]
            np.testing.assert_allclose(env.step(int(action))[0], after, atol=1e-5)
        assert episode.terminated and not episode.truncated


def test_long_episodes_are_written_in_pieces_that_join(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_folder(policy, tmp_path / "whole", episodes=6)
    init = recorder.EpisodeRecorder.__init__

    def small(self: Any, *args: Any, **more: Any) -> None:
        init(self, *args, **more, most_bytes=500)

    monkeypatch.setattr(recorder.EpisodeRecorder, "__init__", small)
    record_folder(policy, tmp_path / "pieces", episodes=6)
    both = zip(episodes_of(tmp_path / "whole"), episodes_of(tmp_path / "pieces"), strict=True)
    for whole, joined in both:
        np.testing.assert_array_equal(whole.obs, joined.obs)
        np.testing.assert_array_equal(whole.logp, joined.logp)


def test_the_same_command_records_the_same_bits(policy: Path, tmp_path: Path) -> None:
    digests = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        record_folder(policy, tmp_path / name, episodes=4, epsilon=0.1, seed=seed)
        digests.append(load_data_set(find_source(tmp_path / name), cache=tmp_path / "cache").digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_share_of_the_episodes_is_random(policy: Path, tmp_path: Path) -> None:
    recording = record_folder(policy, tmp_path / "data", episodes=10, random_share=0.3)
    assert recording.num_random == 3
    random = [np.allclose(e.logp, np.log(0.5)) for e in episodes_of(tmp_path / "data")]
    assert sum(random) == 3


def test_a_folder_is_never_overwritten(policy: Path, tmp_path: Path) -> None:
    record_folder(policy, tmp_path / "data", episodes=2)
    with pytest.raises(ExperimentError, match="add to its data with --append"):
        record_folder(policy, tmp_path / "data", episodes=2, seed=1)
    record_folder(policy, tmp_path / "data", episodes=2, seed=1, append=True)
    assert len(episodes_of(tmp_path / "data")) == 4


def test_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "data"
    arguments = ["record", "random", "--env", "CartPole-v1", "--episodes", "5", "-o", str(out)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert "5 episodes" in result.output and "tunescape data" in result.output
    assert len(episodes_of(out)) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["random"], "--env"),
        (["random", "--env", "CartPole-v1", "--format", "parket"], "did you mean"),
        (["nothing_there"], "no such folder"),
    ],
)
def test_mistakes_are_named(arguments: list[str], words: str, tmp_path: Path) -> None:
    line = ["record", *arguments, "-o", str(tmp_path / "data")]
    result = CliRunner().invoke(cli.app, line)
    assert result.exception is not None and words in str(result.exception)
    assert not (tmp_path / "data").exists()


@pytest.fixture(scope="module")
def duo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two policies, of which one is written by hand."""
    config = PPOConfig().environment("multi_agent_cartpole", env_config={"num_agents": 2})
    config.multi_agent(
        policies={"learner": None, "chance": {"policy_class": "random"}},
        policy_mapping_fn={"agent_0": "learner", "*": "chance"},
    )
    folder = tmp_path_factory.mktemp("duo")
    with config.build() as algo:
        algo.save_checkpoint(str(folder))
    return folder


def test_each_agents_rows_lie_with_the_policy_that_acted(duo: Path, tmp_path: Path) -> None:
    recording = record_folder(duo, tmp_path / "data", episodes=5, seed=5)
    played = evaluate_folder(duo, episodes=5, seed=5)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["chance", "learner"]
    for policy_id, agent in (("learner", "agent_0"), ("chance", "agent_1")):
        found = episodes_of(tmp_path / "data" / policy_id)
        assert {(e.agent_id, e.module_id) for e in found} == {(agent, policy_id)}
        returns = sorted(float(e.rewards.sum()) for e in found)
        assert returns == sorted(played.agents[agent])
    steps = sum(sum(returns) for returns in played.agents.values())
    assert recording.num_steps == steps
    assert [e.outcome for e in recording.episodes] == [e.outcome for e in played.episodes]


def test_other_policies_may_act_for_agents(duo: Path, tmp_path: Path) -> None:
    command = ["record", str(duo), "-o", str(tmp_path / "data"), "--episodes", "3"]
    result = CliRunner().invoke(cli.app, [*command, "--policy-mapping", "*=learner"])
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["learner"]
    found = find_source(tmp_path / "data")
    assert found.agents() == [{"agent_0", "agent_1"}]


def test_all_agents_act_at_random(tmp_path: Path) -> None:
    recording = record_folder("random", tmp_path / "data", env="multi_agent_cartpole", episodes=4)
    assert recording.num_random == len(recording.episodes) == 4
    source = find_source(tmp_path / "data")
    spaces = source.spaces()
    assert spaces is not None
    assert sum(len(e) for e in source.episodes(spaces)) == recording.num_steps


def test_random_actions_are_not_mixed_into_those_of_several_agents(
    duo: Path, tmp_path: Path
) -> None:
    with pytest.raises(ExperimentError, match=r"--epsilon .* not possible with several agents"):
        record_folder(duo, tmp_path / "data", episodes=2, epsilon=0.1)


def test_one_agent_has_no_mapping(policy: Path, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="--policy-mapping: not allowed with one agent"):
        record_folder(policy, tmp_path / "data", episodes=2, policy_mapping="*=a")
