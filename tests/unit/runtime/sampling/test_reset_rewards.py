"""Whatever a vector environment gives on a row that only resets, nobody was rewarded there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import EncodingVectorEnv
from runners import policy_for, runner_of
from tiers import covering

from trainables import DefaultCallbacks, DQNConfig, PPOConfig
from trainables.core.data.batch import Rollout
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.policy.policy import Policy
from trainables.lifecycle.exporting import recorded
from trainables.runtime.callbacks.callbacks import CallbackSet
from trainables.runtime.evaluation.play import evaluate_policy

TRIANGULAR = {3.0, 6.0, 15.0}  # the returns of episodes of 2, 3 and 5 steps


class RewardsResets(EncodingVectorEnv):
    """It gives another reward on rows that only reset; the final observation comes before them."""

    def __init__(self, num_envs: int = 3, reward: float = 5.6):
        super().__init__(num_envs)
        self.reward = reward

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        resets = self.done.copy()
        obs, rewards, *rest = super().step(actions)
        return obs, np.where(resets, self.reward, rewards), *rest


class Sees(DefaultCallbacks):
    """What hooks of episodes are told."""

    returns: list[float]

    def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
        Sees.returns.append(episode.total_reward)

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        Sees.returns.append(episode.total_reward)


@pytest.fixture(autouse=True)
def forget() -> None:
    Sees.returns = []


rewards_given = pytest.mark.parametrize("reward", [5.6, np.nan, -np.inf])


@rewards_given
def test_neither_columns_nor_returns_have_them(reward: float) -> None:
    env = RewardsResets(reward=reward)
    model = {"use_lstm": True, "lstm_use_prev_reward": True}
    config = PPOConfig().training(model=model).callbacks(Sees)
    runner = runner_of(env, config, policy_for(env, model))
    for num_steps in (7, 1, 12):
        rollouts, episodes = runner.sample(num_steps)
        rollout = rollouts["default_policy"]
        assert (rollout.rewards[~rollout.valid] == 0).all()
        before = rollout.obs["@prev_reward"][1:, :, 0]  # what led to each observation
        np.testing.assert_array_equal(before, rollout.rewards)
        assert set(episodes.returns) <= TRIANGULAR
    assert set(Sees.returns) == TRIANGULAR | {0.0}


@pytest.mark.parametrize(
    ("reward", "config_class"), covering([np.nan, 5.6, -np.inf], [DQNConfig, PPOConfig], strength=1)
)
def test_training_is_that_of_an_environment_that_gives_none(
    config_class: Any, reward: float
) -> None:
    results = []
    for env_config in ({"reward": reward}, {"reward": 0.0}):
        config = config_class().environment(RewardsResets, env_config=env_config).debugging(seed=0)
        config.env_runners(num_envs_per_env_runner=3)
        if config_class is PPOConfig:
            config.training(train_batch_size_per_learner=120, minibatch_size=60, num_epochs=2)
        else:
            config.training(num_steps_sampled_before_learning_starts=12, n_step=3)
            config.reporting(min_sample_timesteps_per_iteration=100)
        config.training(model={"fcnet_hiddens": [8]})
        with config.build() as algorithm:
            algorithm.train()
            weights = algorithm.get_policy().get_weights()
        results.append(weights)
    for name, weight in results[0].items():
        np.testing.assert_array_equal(weight, results[1][name])


@rewards_given
def test_an_evaluation_has_none(reward: float) -> None:
    policy = policy_for(RewardsResets())
    played = evaluate_policy(
        policy,
        RewardsResets,
        {"reward": reward},
        num_episodes=9,
        num_envs=3,
        callbacks=CallbackSet(PPOConfig().callbacks(Sees)),
    )
    assert set(played.returns) == TRIANGULAR
    assert set(Sees.returns) == TRIANGULAR | {0.0}


def test_a_recording_has_none() -> None:
    policy = policy_for(RewardsResets())
    recording = recorded(policy, RewardsResets, {"reward": np.nan}, num_observations=60)
    assert (recording.rewards[recording.is_first] == 0).all()
    assert np.isfinite(recording.rewards).all()


def bonus_everywhere(rollout: Rollout, policy: Policy) -> Rollout:
    rollout.rewards = rollout.rewards + np.float32(1.5)
    return rollout


def test_a_learner_connector_gives_none() -> None:
    runner = runner_of(EncodingVectorEnv())
    rollout = runner.sample(12)[0]["default_policy"]
    given = rollout.rewards.copy()
    made = LearnerConnectors(bonus_everywhere)(rollout, runner.policy)
    np.testing.assert_array_equal(made.rewards, np.where(rollout.valid, given + 1.5, 0))
