"""DQN with a memory learns what no policy without one can: to recall."""

from typing import Any

import pytest
from fakes import RecallEnv
from learning_runs import greedy_returns

from trainables import DQNConfig


def recalled(num_env_steps: int, **model: Any) -> float:
    """Share of the last episodes in which the cue was recalled."""
    algo = (
        DQNConfig()
        .environment(RecallEnv)
        .env_runners(num_envs_per_env_runner=16)
        .training(
            model={"fcnet_hiddens": [16], **model},
            train_batch_size_per_learner=128,
            training_intensity=16,
            lr=5e-3,
            epsilon=[[0, 1.0], [2000, 0.02]],
            target_network_update_freq=100,
            num_steps_sampled_before_learning_starts=500,
        )
        .debugging(seed=0)
        .build()
    )
    while algo.num_env_steps_sampled < num_env_steps:
        result = algo.train()
    algo.stop()
    return float(result["episode_return_mean"])


@pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")
def test_it_recalls() -> None:
    assert recalled(6000, use_lstm=True, lstm_cell_size=16, max_seq_len=8) > 0.9


@pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")
def test_without_a_memory_it_guesses() -> None:
    assert recalled(3000) < 0.7


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_balances_a_pole_without_velocities() -> None:
    """The spec's header says what each seed reached; one policy's score swings."""
    scores = greedy_returns("../stateless_cartpole_dqn", 3, 60_000)
    assert scores.mean() >= 300 and scores.min() >= 200
