"""NaN and infinity from an environment: named before anything is made of them, or replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import runners
import torch
from bad_slots import BadSlotEnv, BadSlotEnvAtOnce
from fakes import EncodingVectorEnv
from runners import policy_for
from tiers import covering

from trainables import DQNConfig, PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.envs.sub_environment import SubEnvironmentError
from trainables.runtime.evaluation.play import evaluate_policy
from trainables.runtime.sampling.env_runner import EnvRunner

BAD = (np.nan, np.inf, -np.inf)


@pytest.fixture(autouse=True)
def count_from_zero() -> None:
    BadSlotEnv.made = 0


def runner_of(options: EnvOptions | None = None, num_envs: int = 3, **config: Any) -> EnvRunner:
    options = options or EnvOptions()
    env = make_vector_env(BadSlotEnv, config, num_envs, options=options)
    policy = policy_for(env, {"fcnet_hiddens": [4]}, observation_filter="MeanStdFilter")
    settings = PPOConfig().environment(BadSlotEnv).env_runners(remote_worker_envs=options.remote)
    return runners.runner_of(env, settings, policy, index=2)


SAYS = r"^env 'bad_slots:BadSlotEnv', slot 1 of env runner 2: "


@pytest.mark.parametrize(("value", "remote"), [*((v, False) for v in BAD), (np.nan, True)])
def test_a_reward_is_named(value: float, remote: bool) -> None:
    runner = runner_of(EnvOptions(remote=remote), what="reward", value=value)
    try:
        runner.sample(5)
        what = rf"the reward of step 3 of its episode is {value}; nothing was learned"
        with pytest.raises(SubEnvironmentError, match=SAYS + what):
            runner.sample(5)
    finally:
        runner.stop()
    moments = runner.take_filter_moments()[DEFAULT_MODULE_ID]
    assert moments.count == 15  # the filter has learned of the good rollout alone


@pytest.mark.parametrize(
    ("value", "at", "remote"),
    [(np.nan, 0, False), (np.inf, 2, False), (-np.inf, 4, False), (np.nan, 4, True)],
)
def test_an_observation_is_named(value: float, at: int, remote: bool) -> None:
    """The first one of an episode, one amid it, and its last."""
    runner = runner_of(EnvOptions(remote=remote), what="where", value=value, at=at)
    what = rf"the observation after step {at} of its episode is {value} at 'where' \[2\]; nothing"
    try:
        with pytest.raises(SubEnvironmentError, match=SAYS + what):
            runner.sample(20)
    finally:
        runner.stop()


class NanAtOnce(EncodingVectorEnv):
    """Slot 2's very first observation."""

    def _obs(self) -> np.ndarray:
        obs = super()._obs()
        obs[2, 1] = np.nan
        return obs


def test_the_first_observation_of_all() -> None:
    with pytest.raises(SubEnvironmentError, match=r"slot 2 .* after step 0 .* is nan at \[1\]"):
        runners.runner_of(NanAtOnce())


def test_what_is_finite_passes() -> None:
    """Also where sums and squares of it are not: 1e30 in float32."""
    rollouts, episodes = runner_of().sample(20)
    assert rollouts["default_policy"].num_env_steps == 48
    assert episodes.lengths == [4] * 12


@pytest.mark.parametrize(
    ("config_class", "what"), covering([PPOConfig, DQNConfig], ["reward", "where"], strength=1)
)
def test_neither_weights_nor_filter_nor_replay_are_touched(config_class: Any, what: str) -> None:
    config = config_class().environment(BadSlotEnv, env_config={"what": what}).debugging(seed=0)
    config.env_runners(
        num_envs_per_env_runner=2,
        rollout_fragment_length=20,
        observation_filter="MeanStdFilter" if config_class is PPOConfig else "NoFilter",
    )
    if config_class is PPOConfig:
        config.training(train_batch_size_per_learner=40, minibatch_size=40)
    with config.build() as algorithm:
        before = algorithm.get_policy().get_state()
        with pytest.raises(SubEnvironmentError, match="slot 1 of env runner 0"):
            algorithm.train()
        after = algorithm.get_policy().get_state()
        for name, weight in before["weights"].items():
            np.testing.assert_array_equal(weight, after["weights"][name])
        assert str(before.get("filter")) == str(after.get("filter"))
        assert config_class is PPOConfig or algorithm.experience["default_policy"].num_steps == 0


@pytest.mark.parametrize(("what", "at"), [("reward", 4), ("reward", 2), ("where", 1)])
def test_evaluations_name_it_too(what: str, at: int) -> None:
    policy = policy_for(make_vector_env(BadSlotEnv, {}, 1))
    config = {"what": what, "at": at}
    BadSlotEnv.made = 0
    says = rf"slot 1 of an evaluation: the .* step {at} of its episode is nan"
    with pytest.raises(SubEnvironmentError, match=says):
        evaluate_policy(policy, BadSlotEnvAtOnce, config, num_episodes=2, num_envs=2)


# ------------------------------------------------------------------ replaced, or made numbers of


@pytest.mark.parametrize(
    ("what", "at", "remote"),
    [("reward", 2, False), ("where", 2, False), ("where", 0, False), ("where", 2, True)],
)
def test_an_environment_that_does_so_can_be_replaced(what: str, at: int, remote: bool) -> None:
    runner = runner_of(EnvOptions(restart=True, remote=remote), what=what, at=at)
    try:
        rollouts, episodes = runner.sample(20)
    finally:
        runner.stop()
    rollout = rollouts["default_policy"]
    assert episodes.num_restarts >= 1
    assert np.isfinite(rollout.rewards).all() and np.isfinite(rollout.obs["where"]).all()
    assert set(episodes.lengths) == {4}


def without_infinity(obs: Any) -> Any:
    return torch.cat([obs["where"].clamp(-1, 1).nan_to_num(2.0), obs["bytes"] / 255], -1)


@pytest.mark.parametrize("restart", [False, True])
def test_connectors_may_make_numbers_of_observations(restart: bool) -> None:
    config = PPOConfig().environment(
        BadSlotEnv, env_config={"what": "where", "value": np.inf, "reward": 1}
    )
    config.env_runners(
        num_envs_per_env_runner=2,
        rollout_fragment_length=20,
        env_to_module_connector=without_infinity,
        observation_filter="MeanStdFilter",
    ).fault_tolerance(restart_failed_sub_environments=restart)
    config.training(train_batch_size_per_learner=40, minibatch_size=40)
    with config.build() as algorithm:
        result = algorithm.train()
        assert np.isfinite(result["learner/default_policy/total_loss"])
        assert not result.get("num_sub_environment_restarts", 0)


def infinite_bonus(rollout: Rollout, policy: Policy) -> Rollout:
    rollout.rewards = rollout.rewards / np.zeros_like(rollout.rewards)
    return rollout


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_learner_connector_is_named() -> None:
    runner = runners.runner_of(EncodingVectorEnv())
    rollout = runner.sample(5)[0]["default_policy"]
    with pytest.raises(ConfigError, match="infinite_bonus gave rewards that are no finite numbers"):
        LearnerConnectors(infinite_bonus)(rollout, runner.policy)
