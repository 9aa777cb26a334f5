"""DQN and SAC on recorded experience, alone and mixed with what they sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_fakes import CARTPOLE, balancing, played_episodes, random_episodes
from refusals import Golden, refusals
from tiers import covering

from trainables import DQN, SAC, Algorithm, DQNConfig
from trainables.core.errors import ConfigError
from trainables.runtime.offline.cache import VARIABLE
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.mixture import Mixture
from trainables.runtime.offline.offline_data import OfflineData
from trainables.runtime.offline.writers import make_writer
from trainables.runtime.replay.buffer import ReplayBuffer

SMALL: dict[str, Any] = {
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "train_batch_size_per_learner": 16,
    "lr": 1e-2,
}
SAMPLES: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_steps_sampled_before_learning_starts": 30,
    "min_sample_timesteps_per_iteration": 40,
    "training_intensity": 4.0,  # those that a rollout asks for by itself take seconds
    "replay_buffer_config": {"capacity": 300},
}
both = pytest.mark.parametrize("algorithm", [DQN, SAC])


def written(
    folder: Path, episodes: list[Episode], spaces: DataSpaces = CARTPOLE, **options: Any
) -> str:
    writer = make_writer(folder, spaces, **options)
    for episode in episodes:
        writer.write(episode)
    writer.close()
    return str(folder)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return written(tmp_path / "data", played_episodes(8, 0, balancing, 0.5))


def experience_of(algo: Any) -> Any:
    return algo.experience["default_policy"]


def assert_equal_weights(one: Any, two: Any) -> None:
    mine, theirs = (algo.get_weights()["default_policy"] for algo in (one, two))
    for name in mine:
        assert np.array_equal(mine[name], theirs[name]), name


@both
def test_it_learns_from_data_without_an_environment(algorithm: Any, folder: str) -> None:
    settings = {**SMALL, "input_": folder, "dataset_num_iters_per_learner": 20, "n_step": 3}
    with algorithm(config=settings) as algo:
        data = experience_of(algo)
        assert isinstance(data, OfflineData)
        assert algo.get_policy().observation_space == CARTPOLE.observation
        before = algo.get_weights()["default_policy"]
        results = [algo.train() for _ in range(3)]
        after = algo.get_weights()["default_policy"]
        assert any(not np.array_equal(before[name], after[name]) for name in before)
        action = algo.compute_single_action(data.data.columns["obs"][0], explore=False)
    assert action in (0, 1)
    assert [result["num_updates_lifetime"] for result in results] == [20, 40, 60]
    assert results[-1]["replay/num_steps"] == data.num_steps > 200
    assert results[-1]["num_env_steps_trained_lifetime"] == 60 * 16


def test_one_update_a_training_step_unless_it_is_said(folder: str) -> None:
    with DQN(config={**SMALL, "input_": folder}) as algo:
        algo.training_step()
        assert algo.num_updates == 1


@both
def test_it_learns_from_a_mixture(algorithm: Any, folder: str) -> None:
    with algorithm(config={**SMALL, **SAMPLES, "input_": {"sampler": 0.25, folder: 0.75}}) as algo:
        mixture = experience_of(algo)
        assert isinstance(mixture, Mixture)
        sampled, data = mixture.parts["sampler"], mixture.parts[folder]
        assert isinstance(sampled, ReplayBuffer) and isinstance(data, OfflineData)
        algo.training_step()  # it fills the buffer first, as without data
        assert algo.num_env_steps_sampled < 30 and algo.num_updates == 0
        result = algo.train()
        assert algo.num_updates > 0
        assert sampled.num_steps == result["num_env_steps_sampled_lifetime"]
        assert result["replay/num_steps"] == sampled.num_steps + data.num_steps
        ids = algo.experience.draw("default_policy", 1, 1.0).columns["ids"]
        assert (ids < 1 << 48).tolist() == [True] * 4 + [False] * 12


@pytest.mark.parametrize(
    ("algorithm", "shares"), covering([DQN, SAC], ["data", "mixture"], strength=1)
)
def test_it_resumes_to_the_bit(algorithm: Any, shares: str, folder: str, tmp_path: Path) -> None:
    settings = {**SMALL, "n_step": [1, 3], "input_": folder}
    if shares == "mixture":
        settings |= {**SAMPLES, "input_": {"sampler": 0.3, folder: 0.7}}
        settings["store_buffer_in_checkpoints"] = True
    with algorithm(config=settings) as whole:
        whole.train()
        whole.train()
        whole.save(str(tmp_path / "c"))
        with Algorithm.from_checkpoint(tmp_path / "c", trust=["input_", folder]) as resumed:
            for algo in (whole, resumed):
                for _ in range(10):
                    algo.training_step()
            assert resumed.num_updates == whole.num_updates > 10
            assert_equal_weights(resumed, whole)
            drawn = [experience_of(algo).sample(32, gamma=0.9) for algo in (whole, resumed)]
            for name, column in drawn[0].items():
                assert torch.equal(column, drawn[1][name]), name


def test_data_that_have_changed_since_are_one_error(folder: str, tmp_path: Path) -> None:
    with DQN(config={**SMALL, "input_": folder}) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "c"))
        algo.restore(saved)
    written(Path(folder), played_episodes(2, 5), prefix="more")
    with pytest.raises(ConfigError, match=r"input_: .*data.* holds other data than the checkpoint"):
        Algorithm.from_checkpoint(tmp_path / "c", trust=["input_", folder])


def test_a_memory_is_trained_on_sequences_of_data_and_begins_with_nothing(folder: str) -> None:
    model = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5, "fcnet_hiddens": [8]}
    for more in ({"input_": folder}, {**SAMPLES, "input_": {"sampler": 0.5, folder: 0.5}}):
        with DQN(config={**SMALL, **more, "model": model, "burn_in_len": 2}) as algo:
            algo.train()
            drawn = algo.experience.draw("default_policy", 2, 1.0).columns
            assert algo.num_updates > 0
        of_data = drawn["ids"][0] >= (1 << 48 if "env" in more else 0)
        states = [drawn[name][of_data] for name in drawn if name.startswith("state/")]
        assert states and not any(state.any() for state in states)


def test_frames_are_stacked_and_rewards_clipped_as_those_of_what_is_sampled(folder: str) -> None:
    with DQN(config={**SMALL, "input_": folder, "frame_stack": 3, "clip_rewards": 0.5}) as algo:
        algo.train()
        drawn = algo.experience.draw("default_policy", 1, 1.0).columns
        assert drawn["obs"].shape == (16, 3, 4) and set(drawn["rewards"].tolist()) == {0.5}


def test_continuous_actions_are_what_the_distribution_draws(tmp_path: Path) -> None:
    spaces = DataSpaces(CARTPOLE.observation, gym.spaces.Box(-3, 1, (2,), np.float32))
    folder = written(tmp_path / "box", random_episodes(spaces, (9, 20, 5)), spaces)
    with SAC(config={**SMALL, "input_": folder}) as algo:
        algo.train()
        drawn = experience_of(algo).sample(50, gamma=0.9)
        ids = drawn["ids"].numpy()
        taken = experience_of(algo).data.columns["actions"][ids]
        made = algo.get_policy().actions(drawn["actions"])
        np.testing.assert_allclose(made, taken, atol=1e-5)


def test_several_data_sets_have_their_shares(folder: str, tmp_path: Path) -> None:
    other = written(tmp_path / "other", played_episodes(3, 7))
    with DQN(config={**SMALL, "input_": {folder: 0.25, other: 0.75}}) as algo:
        algo.train()
        mixture = experience_of(algo)
        assert [*mixture.parts] == [folder, other]
        ids = mixture.sample(8, gamma=0.9)["ids"]
        assert (ids >= 1 << 48).tolist() == [False] * 2 + [True] * 6


def test_data_of_different_spaces_are_refused(folder: str, tmp_path: Path) -> None:
    spaces = DataSpaces(gym.spaces.Box(-1, 1, (3,), np.float32), CARTPOLE.action)
    other = written(tmp_path / "other", random_episodes(spaces, (4,)), spaces)
    with pytest.raises(ConfigError, match=r"data and .*other are of different spaces: shape"):
        DQN(config={**SMALL, "input_": {folder: 0.5, other: 0.5}})
    with pytest.raises(ConfigError, match=r"column 'obs'.*shape"):
        DQN(config={**SMALL, **SAMPLES, "input_": {"sampler": 0.5, other: 0.5}})


def test_what_does_not_go_with_data_is_refused(folder: str, golden: Golden) -> None:
    cases = [
        {"replay_buffer_config": {"type": "PrioritizedReplayBuffer"}},
        {"learner_connector": lambda rollout, policy: rollout},
        {"training_intensity": 4},
    ]
    golden(
        "learning_from_data/what_does_not_go_with_data_is_refused",
        refusals(
            lambda settings: DQN(config={**SMALL, "input_": folder, **settings}),
            cases,
            replace={folder: "<folder>"},
        ),
    )


def test_several_modules_that_learn_are_refused(folder: str) -> None:
    class Two(DQN):
        @classmethod
        def module_ids(cls, config: Any) -> list[str]:
            return ["one", "two"]

        @staticmethod
        def module_of_slot(slot: int, worker_index: int) -> str:
            return ["one", "two"][slot]

    slots = {"num_envs_per_env_runner": 2}
    with pytest.raises(ConfigError, match=r"not possible with several modules that learn \(one, t"):
        Two(config={**SMALL, **SAMPLES, "input_": {"sampler": 0.5, folder: 0.5}, **slots})


def test_the_environment_says_the_spaces_where_it_is_given(folder: str) -> None:
    config = DQNConfig(**SMALL, input_=folder, env="CartPole-v1")
    with config.build() as algo:
        algo.train()
        assert algo.get_policy().observation_space == CARTPOLE.observation


@both
def test_another_trial_learns_from_other_data(algorithm: Any, folder: str, tmp_path: Path) -> None:
    other = written(tmp_path / "other", played_episodes(3, 7))
    with algorithm(config={**SMALL, "input_": folder}) as algo:
        algo.train()
        digest = experience_of(algo).data.digest
        assert algo.reset_config({**SMALL, "input_": other})
        algo.train()
        assert experience_of(algo).data.digest != digest
