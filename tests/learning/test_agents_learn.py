"""Several agents learn: each policy balances its cart poles, and rock-paper-scissors is mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainables import (
    A2CConfig,
    APPOConfig,
    DQNConfig,
    IMPALAConfig,
    PPOConfig,
    SACConfig,
    make_multi_agent,
)


def two_policies(config: Any, **settings: Any) -> Any:
    """Four cart poles a slot, two of which each policy balances."""
    config.environment("multi_agent_cartpole", env_config={"num_agents": 4})
    config.multi_agent(
        policies=["left", "right"],
        policy_mapping_fn={"agent_0": "left", "agent_1": "left", "*": "right"},
    )
    config.evaluation(evaluation_duration=10).debugging(seed=0)
    return config.update_from_dict(settings).build()


def greedy(algo: Any) -> list[float]:
    evaluation = algo.evaluate()
    return [evaluation[f"module/{m}/episode_return_mean"] for m in ("left", "right")]


def ppo(num_agent_steps: int, **settings: Any) -> list[float]:
    """Greedy returns of both policies after at most as many steps of agents."""
    config = PPOConfig().env_runners(num_envs_per_env_runner=8)
    config.training(train_batch_size=1024, minibatch_size=256, num_epochs=10, lr=1e-3)
    config.training(gamma=0.98, lambda_=0.9)
    with two_policies(config, **settings) as algo:
        while algo.num_agent_steps_sampled < num_agent_steps:
            algo.train()
        return greedy(algo)


@pytest.mark.full("test_rock_paper_scissors_is_played_mixed")
def test_both_policies_balance() -> None:
    assert min(ppo(150_000)) >= 400


@pytest.mark.full("test_rock_paper_scissors_is_played_mixed")
def test_both_policies_balance_with_one_encoder() -> None:
    assert min(ppo(100_000, shared_encoders=True)) >= 400


@pytest.mark.full("test_rock_paper_scissors_is_played_mixed")
def test_a_policy_that_is_not_trained_stays_where_it_is() -> None:
    left, right = ppo(60_000, policies_to_train=["right"])
    assert left < 250 and right >= 400


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_both_reach_the_score_of_one(seed: int) -> None:
    assert min(ppo(400_000, seed=seed)) >= 450


@pytest.mark.slow
def test_dqn_balances() -> None:
    """With the settings of the tuned spec of one agent."""
    config = DQNConfig().env_runners(num_envs_per_env_runner=8)
    config.training(lr=[[0, 1e-3], [50_000, 1e-5]], train_batch_size=128, training_intensity=32)
    config.training(n_step=3, target_network_update_freq=200, epsilon=[[0, 1.0], [8000, 0.04]])
    config.training(num_steps_sampled_before_learning_starts=1000)
    config.training(model={"fcnet_hiddens": [128, 128]})
    config.reporting(min_sample_timesteps_per_iteration=1000)
    with two_policies(config) as algo:
        while algo.num_env_steps_sampled < 40_000:
            algo.train()
        assert min(greedy(algo)) >= 400


def until(algo: Any, num_env_steps: int) -> list[float]:
    """Greedy returns of both policies after so many steps."""
    with algo:
        while algo.num_env_steps_sampled < num_env_steps:
            algo.train()
        return greedy(algo)


@pytest.mark.slow
def test_a2c_balances() -> None:
    config = A2CConfig().env_runners(num_envs_per_env_runner=8)
    config.training(lr=[[0, 3e-3], [250_000, 0.0]], gamma=0.98, lambda_=0.95)
    config.training(normalize_advantages=True)
    config.reporting(min_sample_timesteps_per_iteration=4000)
    assert min(until(two_policies(config), 250_000)) >= 400


@pytest.mark.slow
def test_impala_balances() -> None:
    config = IMPALAConfig().env_runners(num_envs_per_env_runner=8).training(lr=1e-3, gamma=0.98)
    config.reporting(min_sample_timesteps_per_iteration=2000)
    assert min(until(two_policies(config), 120_000)) >= 400


@pytest.mark.slow
def test_appo_balances() -> None:
    config = APPOConfig().env_runners(num_envs_per_env_runner=8).training(lr=1e-3, gamma=0.98)
    config.training(num_epochs=4, minibatch_size=256, entropy_coeff=0.0, lambda_=0.9)
    config.training(train_batch_size=1000)
    config.reporting(min_sample_timesteps_per_iteration=4000)
    assert min(until(two_policies(config), 80_000)) >= 450


@pytest.mark.slow
def test_sac_swings_both_pendulums_up() -> None:
    config = SACConfig().environment(make_multi_agent("Pendulum-v1"), env_config={"num_agents": 2})
    config.multi_agent(policies=["left", "right"], policy_mapping_fn={"0": "left", "*": "right"})
    config.training(lr=1e-3, num_steps_sampled_before_learning_starts=500)
    config.training(model={"fcnet_hiddens": [64, 64]})
    config.reporting(min_sample_timesteps_per_iteration=1000)
    config.evaluation(evaluation_duration=10).debugging(seed=0)
    assert min(until(config.build(), 6000)) >= -250


def test_rock_paper_scissors_is_played_mixed() -> None:
    """To draw each move equally often is the only equilibrium; entropy keeps players near it."""
    config = PPOConfig().environment("matrix_game", env_config={"payoffs": "rock_paper_scissors"})
    config.env_runners(num_envs_per_env_runner=16).debugging(seed=0)
    config.training(train_batch_size=1024, minibatch_size=256, num_epochs=4, entropy_coeff=0.1)
    config.multi_agent(
        policies=["row", "column"], policy_mapping_fn={"agent_0": "row", "*": "column"}
    )
    with config.build() as algo:
        for _ in range(10):
            algo.train()
        for policy in algo.policies.values():
            obs = np.zeros((1, *policy.observation_space.shape), np.float32)
            shares = policy.forward(obs).dist_inputs.softmax(-1).numpy()[0]
            assert shares.max() < 0.6 and shares.min() > 0.15
