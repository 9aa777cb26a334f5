"""Learner connectors: the one place in which rewards are changed before anything is learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from refusals import Golden, refusals

from tests.connector_cases import Counted, doubled
from tests.fakes import EndlessEnv
from tests.small_runs import settings_of
from trainables import Algorithm, DQNConfig, Policy, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.connectors import LearnerConnectors
from trainables.registry import get_algorithm

NAME = "tests.connector_cases:"
REWARDS = np.array([[-3.0, 0.0], [0.25, 7.0]], np.float32)


def rollout(rewards: np.ndarray = REWARDS) -> Rollout:
    flags = np.ones(rewards.shape, bool)
    empty = np.zeros(rewards.shape)
    slots = np.zeros(rewards.shape[1], np.int64)
    return Rollout(empty, empty, rewards, ~flags, ~flags, empty, flags, flags, slots, slots == 0)


def rewards_of(connectors: LearnerConnectors) -> np.ndarray:
    given = rollout()
    given.rewards.setflags(write=False)  # as those that Ray hands over
    result = connectors(given, None)  # type: ignore[arg-type]
    assert result.rewards.dtype == np.float32
    return result.rewards


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (None, REWARDS),
        (False, REWARDS),
        (True, [[-1, 0], [1, 1]]),
        (2, [[-2, 0], [0.25, 2]]),
        ([-1, 0.5], [[-1, 0], [0.25, 0.5]]),
    ],
)
def test_clip_rewards(bound: Any, expected: Any) -> None:
    np.testing.assert_array_equal(rewards_of(LearnerConnectors(None, bound)), expected)


def test_clipping_comes_first() -> None:
    given = [doubled, {"type": Counted, "bonus": 3}]
    np.testing.assert_array_equal(rewards_of(LearnerConnectors(given, True)), [[1, 3], [5, 5]])


def test_errors_name_the_connector(golden: Golden) -> None:
    cases = {
        "none": lambda rollout, policy: None,
        "fewer rewards": lambda r, p: rollout(REWARDS[:1]),
        "a name without a module": "nothing",
        "a maker by other names": lambda first, second: doubled,
        "one argument": lambda rollout: rollout,
    }
    golden(
        "learner_connectors/errors_name_the_connector",
        refusals(lambda given: rewards_of(LearnerConnectors(given)), cases),
    )


def of_spaces(input_observation_space: gym.Space, input_action_space: gym.Space) -> Any:
    """A factory, as the reference has them."""
    assert isinstance(input_action_space, gym.spaces.Discrete)
    return [doubled, lambda rollout, policy: bonus(rollout, input_observation_space)]


def bonus(given: Rollout, space: gym.Space) -> Rollout:
    return replace(given, rewards=given.rewards + len(space.low))  # type: ignore[attr-defined]


class OfSpaces:
    """A connector that is made for spaces."""

    def __init__(self, observation_space: gym.Space, action_space: gym.Space, more: int = 0):
        self.space_it_has, self.more = observation_space, more

    def __call__(self, given: Rollout, policy: Any) -> Rollout:
        return bonus(replace(given, rewards=given.rewards + self.more), self.space_it_has)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (of_spaces, 2 * REWARDS + 2),
        (lambda obs_space, act_space: doubled, 2 * REWARDS),
        (lambda obs_sp, act_sp: [doubled, doubled], 4 * REWARDS),
        (OfSpaces, REWARDS + 2),
        ({"type": OfSpaces, "more": 3}, REWARDS + 5),
    ],
)
def test_factories_get_the_spaces(given: Any, expected: Any) -> None:
    policy = Policy(gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(3), {"fcnet_hiddens": [4]})
    connectors = LearnerConnectors(given, policy=policy)
    np.testing.assert_array_equal(rewards_of(connectors), expected)


def test_a_factory_of_something_else_says_what_it_may_take() -> None:
    policy = Policy(gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(3), {"fcnet_hiddens": [4]})

    def episodes(obs_space: Any, act_space: Any, third: Any) -> Any:
        return doubled

    class Piece:
        def __call__(self, *, rl_module: Any, batch: Any, episodes: Any) -> Any:
            return batch

    with pytest.raises(ConfigError, match=r"takes \(obs_space, act_space, third\); a connector "):
        LearnerConnectors(episodes, policy=policy)
    with pytest.raises(ConfigError, match=r"takes \(rl_module, batch, episodes\); a connector ta"):
        LearnerConnectors(lambda obs_space, act_space: Piece(), policy=policy)


def config(cls: Any, **settings: Any) -> Any:
    return (
        cls()
        .environment(EndlessEnv, env_config={"horizon": 4}, **settings)
        .env_runners(num_envs_per_env_runner=2)
        .training(train_batch_size_per_learner=16, learner_connector=f"{NAME}Counted")
        .debugging(seed=0)
    )


def test_what_is_learned_from_and_what_is_reported(tmp_path: Path) -> None:
    ppo = config(PPOConfig, clip_rewards=0.5).training(minibatch_size=8, num_epochs=1)
    with ppo.build() as algorithm:
        sampled = algorithm.sample()["default_policy"]
        assert np.unique(sampled.rewards[sampled.valid]).tolist() == [1.5]
        assert algorithm.train()["episode_return_mean"] == 4.0
        algorithm.save(str(tmp_path))
        rows = algorithm.learner_connectors["default_policy"].get_state()
        assert rows == [{"rows": 32}]
    with pytest.raises(CheckpointError, match=f"learner_connector = '{NAME}Counted'"):
        Algorithm.from_checkpoint(tmp_path, trust=["tests.fakes:EndlessEnv"])
    trust = ["tests.fakes:EndlessEnv", f"{NAME}Counted"]
    with Algorithm.from_checkpoint(tmp_path, trust=trust) as algorithm:
        assert algorithm.learner_connectors["default_policy"].get_state() == rows


def test_replay_holds_what_the_connectors_made() -> None:
    dqn = config(DQNConfig, clip_rewards=0.5).training(num_steps_sampled_before_learning_starts=16)
    with dqn.reporting(min_sample_timesteps_per_iteration=64).build() as algorithm:
        assert algorithm.train()["episode_return_mean"] == 4.0
        batch = algorithm.experience["default_policy"].sample(32, 1, gamma=0.9, n_step=(1, 1))
        assert batch["rewards"].unique().tolist() == [1.5]


def test_another_clip_rewards_goes_on_and_other_connectors_change_nothing() -> None:
    ppo = config(PPOConfig, clip_rewards=0.5).training(minibatch_size=8, num_epochs=1)
    with ppo.build() as algorithm:
        algorithm.train()
        state = algorithm.get_state()
    ppo.environment(clip_rewards=None)
    with ppo.build() as algorithm:  # as a clone of a population may have it
        algorithm.set_state(state)
        assert algorithm.learner_connectors["default_policy"].get_state() == [{"rows": 16}]
    too_few = "the state is of 1 connectors, there are 0"
    for given, message in ((None, too_few), (doubled, "cannot take over; see set_state")):
        with ppo.copy().training(learner_connector=given).build() as algorithm:
            before = algorithm.get_policy().get_weights()
            with pytest.raises(ConfigError, match=f"learner_connector: .*{message}"):
                algorithm.set_state(state)
            after = algorithm.get_policy().get_weights()
            assert all((after[name] == before[name]).all() for name in before)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("IMPALA", {"replay_proportion": 1.0, "replay_buffer_num_slots": 4}),
        ("APPO", {"circular_buffer_iterations_per_batch": 2}),
    ],
)
def test_what_counts_is_refused_where_a_fragment_comes_again(
    name: str, settings: dict[str, Any]
) -> None:
    given = settings_of(name) | {"learner_connector": Counted}
    with pytest.raises(ConfigError, match=f"count a fragment as often.*{next(iter(settings))}"):
        get_algorithm(name)(config=given | settings)
    once = {"circular_buffer_iterations_per_batch": 1} if name == "APPO" else {}
    with get_algorithm(name)(config=given | once) as algorithm:
        algorithm.train()
        rows = algorithm.learner_connectors["default_policy"].get_state()[0]["rows"]
        assert rows >= algorithm.num_env_steps_trained
