"""Trainables that learn from replay, side by side in one process: each as alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trainables import DQNConfig
from trainables.algorithm import Algorithm
from trainables.runtime.members.meeting import Meeting

SETTINGS: list[dict[str, Any]] = [
    {"lr": 5e-4, "gamma": 0.99, "tau": 1.0, "target_network_update_freq": 100},
    {"lr": 1e-3, "gamma": 0.95, "tau": 0.01, "n_step": 3},
    {"lr": 2e-3, "gamma": 0.9, "tau": 0.05, "grad_clip": 1.0},
]
RAINBOW = {
    "noisy": True,
    "num_atoms": 11,
    "v_min": -10.0,
    "v_max": 100.0,
    "replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 2000},
}


def dqn(seed: int, **settings: Any) -> Algorithm:
    config = DQNConfig().environment("CartPole-v1").env_runners(num_envs_per_env_runner=4)
    given = {
        "model": {"fcnet_hiddens": [16]},
        "num_steps_sampled_before_learning_starts": 64,
        "min_sample_timesteps_per_iteration": 200,
        "seed": seed,
    }
    return config.update_from_dict({**given, **SETTINGS[seed % 3], **settings}).build()


def weights(algo: Algorithm) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in algo.get_policy().module.parameters()])


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("episode_return_mean", "num_env_steps_sampled_lifetime", "num_updates_lifetime"):
        assert found[name] == pytest.approx(expected[name], nan_ok=True), name
    learned = [name for name in expected if name.startswith("learner/")]
    assert len(learned) > 4
    for name in learned:
        assert found[name] == pytest.approx(expected[name], rel=1e-2, abs=1e-3), name


def assert_as_alone(make: Any, rounds: list[tuple[int, ...]], **settings: Any) -> Meeting:
    """Members of each round train together, and what they are is what they are alone."""
    meeting = Meeting()
    together, alone = ([make(seed, **settings) for seed in range(3)] for _ in range(2))
    for present in rounds:
        outcomes = meeting.run({seed: together[seed].train for seed in present})
        for seed in present:
            assert not isinstance(outcomes[seed], BaseException), outcomes[seed]
            assert_alike(outcomes[seed], alone[seed].train())
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(weights(one), weights(other), atol=1e-3, rtol=1e-3)
        one.stop()
        other.stop()
    return meeting


@pytest.mark.parametrize("settings", [{}, RAINBOW], ids=["plain", "rainbow"])
def test_members_of_dqn_that_come_and_go_are_as_they_are_alone(settings: dict[str, Any]) -> None:
    meeting = assert_as_alone(dqn, [(0, 1, 2), (2, 0), (1,), (0, 1, 2)], **settings)
    assert meeting.reasons == set()
    assert meeting.num_together > 5 * meeting.num_alone > 0
