"""Trainables that learn from replay, side by side in one process: each as alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiers import rarely

from trainables import DQNConfig, QMIXConfig, SACConfig
from trainables.algorithm import Algorithm
from trainables.core.features import using
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
        "min_sample_timesteps_per_iteration": 80,
        "seed": seed,
    }
    with using("batching"):
        return config.update_from_dict({**given, **SETTINGS[seed % 3], **settings}).build()


def sac(seed: int, **settings: Any) -> Algorithm:
    config = SACConfig().environment("Pendulum-v1").env_runners(num_envs_per_env_runner=2)
    given = {
        "model": {"fcnet_hiddens": [16], "fcnet_activation": "tanh"},
        "train_batch_size_per_learner": 32,
        "num_steps_sampled_before_learning_starts": 32,
        "training_intensity": 16,
        "env_config": {"max_episode_steps": 20},
        "min_sample_timesteps_per_iteration": 20,
        "target_entropy": -0.5 - 0.2 * seed,
        "actor_lr": 3e-4 * (1 + seed),
        "gamma": 0.99 - 0.02 * seed,
        "tau": 0.005 * (1 + seed),
        "seed": seed,
    }
    with using("batching"):
        return config.update_from_dict({**given, **settings}).build()


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


STEPS = "StepRequest"


@pytest.mark.parametrize("settings", rarely([{}, RAINBOW], [RAINBOW]))
def test_members_of_dqn_that_come_and_go_are_as_they_are_alone(settings: dict[str, Any]) -> None:
    meeting = assert_as_alone(dqn, [(0, 1, 2), (2, 0), (1,), (0, 1, 2)], **settings)
    assert STEPS not in meeting.reasons
    assert meeting.num_together[STEPS] > 5 * meeting.num_alone[STEPS] > 0


def test_members_of_sac_that_come_and_go_are_as_they_are_alone() -> None:
    meeting = assert_as_alone(sac, [(0, 1, 2), (2, 0), (1,)])
    assert STEPS not in meeting.reasons
    assert meeting.num_together[STEPS] > 3 * meeting.num_alone[STEPS] > 0


@pytest.mark.full("test_members_of_sac_that_come_and_go_are_as_they_are_alone")
def test_members_of_sac_with_discrete_actions_are_as_they_are_alone() -> None:
    settings = {"env": "CartPole-v1", "env_config": {}, "target_entropy": "auto"}
    meeting = assert_as_alone(sac, [(0, 1, 2)] * 3, **settings)
    assert STEPS not in meeting.reasons
    assert meeting.num_together[STEPS] > meeting.num_alone[STEPS]


def test_who_diverges_fails_alone() -> None:
    together = [dqn(0), dqn(1, lr=1e30), dqn(2)]
    alone = {seed: dqn(seed) for seed in (0, 2)}
    meeting, failures = Meeting(), []
    for _ in range(2):
        outcomes = meeting.run({i: one.train for i, one in enumerate(together)})
        failures += [outcomes[1]] if isinstance(outcomes[1], Exception) else []
        for seed, one in alone.items():
            assert_alike(outcomes[seed], one.train())
    assert failures
    assert "diverged" in str(failures[0]) or "not finite" in str(failures[0])


def test_a_member_that_goes_on_from_a_checkpoint_is_as_it_was(tmp_path: Any) -> None:
    """Its own state alone is in it, and a member that takes it over goes on as any does."""
    meeting = Meeting()
    members = {seed: dqn(seed, store_buffer_in_checkpoints=True) for seed in range(2)}
    meeting.run({seed: one.train for seed, one in members.items()})
    members[1].save(str(tmp_path))
    expected = meeting.run({seed: one.train for seed, one in members.items()})
    restored = type(members[1]).from_checkpoint(str(tmp_path))
    assert_alike(restored.train(), expected[1])
    members[1].restore(str(tmp_path))
    again = meeting.run({seed: one.train for seed, one in members.items()})
    assert_alike(again[1], expected[1])


def test_what_is_not_written_for_several_learns_alone_and_says_why() -> None:
    def qmix(seed: int, **settings: Any) -> Algorithm:
        config = QMIXConfig().environment("two_step_game")
        given = {
            "model": {"fcnet_hiddens": [8]},
            "num_steps_sampled_before_learning_starts": 64,
            "min_sample_timesteps_per_iteration": 100,
            "seed": seed,
        }
        with using("batching"):
            return config.update_from_dict({**given, **settings}).build()

    meeting = assert_as_alone(qmix, [(0, 1, 2)])
    assert STEPS not in meeting.num_together
    assert meeting.reasons[STEPS] == {"its loss is not written for several members"}
