"""Exploration that differs between env runners: the constants, what is refused, one process."""

from __future__ import annotations

from typing import Any

import pytest

from trainables import DQNConfig, SACConfig
from trainables.core.config.exploration import of_env_runner, per_worker_mean, per_worker_value
from trainables.core.errors import ConfigError


def dqn(num_env_runners: int, **options: Any) -> DQNConfig:
    exploration = {"type": "PerWorkerEpsilonGreedy", **options}
    config = DQNConfig().environment("CartPole-v1").exploration(exploration_config=exploration)
    return config.env_runners(num_env_runners=num_env_runners)


def test_the_constants_of_ape_x() -> None:
    assert per_worker_value(1, 8) == pytest.approx(0.4)
    assert per_worker_value(8, 8) == pytest.approx(0.4**8)
    assert per_worker_value(2, 8) == pytest.approx(0.4**2)
    assert per_worker_value(1, 1) == pytest.approx(0.4)
    assert per_worker_mean(2) == pytest.approx((0.4 + 0.4**8) / 2)
    values = {"epsilon": 0.5, "uniform": True}
    assert of_env_runner(values, 2, 2) == {"epsilon": pytest.approx(0.4**8), "uniform": True}
    assert values["epsilon"] == 0.5


def test_the_trials_own_policy_has_the_mean() -> None:
    assert dqn(4).resolve().epsilon == per_worker_mean(4)


def test_in_one_process_it_is_the_plain_type() -> None:
    plain = dqn(0, final_epsilon=0.2, epsilon_timesteps=100)
    plain.validate()
    assert plain.resolve().epsilon == [[0, 1.0], [100, 0.2]]
    assert plain.resolve().exploration.type == "EpsilonGreedy"
    noise = SACConfig().exploration(exploration_config={"type": "PerWorkerGaussianNoise"})
    assert noise.resolve().exploration.type == "GaussianNoise"
    assert noise.resolve().exploration.has_scale


def test_options_that_would_have_no_effect_are_refused() -> None:
    why = "final_epsilon has no effect with type = 'PerWorkerEpsilonGreedy' and num_env_runners = 2"
    with pytest.raises(ConfigError, match=why):
        dqn(2, final_epsilon=0.1).validate()
    with pytest.raises(ConfigError, match=r"epsilon = 0.3 has no effect with .* a constant of its"):
        dqn(2).training(epsilon=0.3).validate()
    noise = SACConfig().environment("Pendulum-v1").env_runners(num_env_runners=2)
    kind = {"type": "PerWorkerOrnsteinUhlenbeckNoise"}
    noise.exploration(exploration_config={**kind, "ou_theta": 0.3}).validate()
    with pytest.raises(ConfigError, match="scale_timesteps has no effect with type = 'Per"):
        noise.exploration(exploration_config={**kind, "scale_timesteps": 5}).validate()


def test_algorithms_without_the_plain_type_have_none() -> None:
    with pytest.raises(ConfigError, match=r"PerWorkerGaussianNoise' is not supported by DQN"):
        DQNConfig().exploration(exploration_config={"type": "PerWorkerGaussianNoise"})
