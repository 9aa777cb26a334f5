"""Checkpoints of DQN and SAC with and without the replay buffer."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from trainables import DQN, SAC, Algorithm
from trainables.core.errors import ConfigError

TINY: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "num_envs_per_env_runner": 3,
    "num_steps_sampled_before_learning_starts": 50,
    "train_batch_size_per_learner": 8,
    "min_sample_timesteps_per_iteration": 100,
    "training_intensity": 2.5,  # updates and target updates are owed in parts
    "target_network_update_freq": 7,
    "tau": 0.3,
    "n_step": [1, 3],
    "lr": 1e-2,
    "replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 300},
}
both = pytest.mark.parametrize("algorithm", [DQN, SAC])


def settings_of(algorithm: Any, **more: Any) -> dict[str, Any]:
    extra = {"noisy": True, "num_atoms": 5} if algorithm is DQN else {}
    return TINY | extra | {"store_buffer_in_checkpoints": True} | more


def target_of(algo: Any) -> torch.Tensor:
    (target,) = algo.learners["default_policy"].targets.values()
    return target.get_state()


def assert_equal_weights(one: Any, two: Any) -> None:
    mine, theirs = (algo.get_weights()["default_policy"] for algo in (one, two))
    for name in mine:
        assert np.array_equal(mine[name], theirs[name]), name


@both
def test_with_the_buffer_a_restored_run_goes_on_to_the_bit(algorithm: Any, tmp_path: Any) -> None:
    """The ring has gone round; weights, targets, priorities and counts are the same later on."""
    ring = {"type": "PrioritizedReplayBuffer", "capacity": 150}
    with algorithm(settings_of(algorithm, replay_buffer_config=ring)) as whole:
        for _ in range(2):
            whole.train()
        whole.save(str(tmp_path / "c"))
        with Algorithm.from_checkpoint(tmp_path / "c") as restored:
            assert torch.equal(target_of(restored), target_of(whole))
            for algo in (whole, restored):
                for _ in range(30):
                    algo.training_step()
            assert restored.num_updates == whole.num_updates > 60
            assert torch.equal(target_of(restored), target_of(whole))
            assert_equal_weights(restored, whole)
            drawn = [
                algo.experience["default_policy"].sample(64, gamma=0.9)
                for algo in (whole, restored)
            ]
            for name, column in drawn[0].items():
                assert torch.equal(column, drawn[1][name]), name


@both
def test_without_it_training_goes_on_after_a_refill_and_says_so_once(
    algorithm: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(algorithm, store_buffer_in_checkpoints=False)
    with algorithm(settings) as algo:
        algo.train()
        algo.save(str(tmp_path / "c"))
        number, steps = algo.num_updates, algo.num_env_steps_sampled
        weights = algo.get_weights()["default_policy"]
    with caplog.at_level(logging.WARNING, "trainables"):
        restored = Algorithm.from_checkpoint(tmp_path / "c")
        with restored as algo:
            assert algo.experience["default_policy"].num_steps == 0
            while algo.num_env_steps_sampled < steps + 47:  # a round more may start to learn
                algo.training_step()
                assert algo.num_updates == number
            for name, value in algo.get_weights()["default_policy"].items():
                assert np.array_equal(value, weights[name])
            algo.train()
            assert algo.num_updates > number
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1, warnings
    assert "store_buffer_in_checkpoints" in warnings[0] and "50 steps" in warnings[0]


def test_a_resumed_policy_acts_while_the_buffer_is_refilled(tmp_path: Any) -> None:
    """Uniform actions are for a policy that knows nothing yet."""
    settings = settings_of(SAC, store_buffer_in_checkpoints=False)
    with SAC(settings) as algo:
        algo.train()
        algo.save(str(tmp_path / "c"))
    with Algorithm.from_checkpoint(tmp_path / "c") as algo:
        algo.training_step()
        assert not algo.get_policy().exploration["uniform"]


def test_restoring_in_place_without_the_buffer_forgets_the_old_one(tmp_path: Any) -> None:
    with DQN(settings_of(DQN, store_buffer_in_checkpoints=False)) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "c"))
        algo.train()
        algo.restore(saved)
        assert algo.experience["default_policy"].num_steps == 0


def as_trial(algo: Any, trial_id: str) -> Any:
    algo._trial_info = SimpleNamespace(trial_id=trial_id)
    return algo


@both
def test_a_clone_without_a_buffer_is_refused_with_the_setting(algorithm: Any) -> None:
    settings = settings_of(algorithm, store_buffer_in_checkpoints=False)
    with as_trial(algorithm(settings), "donor") as donor, as_trial(algorithm(settings), "b") as b:
        donor.train()
        weights = b.get_weights()["default_policy"]
        with pytest.raises(ConfigError, match="store_buffer_in_checkpoints"):
            b.set_state(donor.get_state())
        for name, value in b.get_weights()["default_policy"].items():
            assert np.array_equal(value, weights[name])  # nothing was taken over
        b._trial_info.trial_id = "donor"  # the same trial, resumed
        b.set_state(donor.get_state())


@both
def test_a_clone_has_the_donors_buffer_and_draws_of_its_own(algorithm: Any) -> None:
    settings = settings_of(algorithm)
    with as_trial(algorithm(settings), "donor") as donor, as_trial(algorithm(settings), "b") as b:
        donor.train()
        b.set_state(donor.get_state())
        mine, theirs = (algo.experience["default_policy"] for algo in (b, donor))
        assert mine.num_steps == theirs.num_steps > 50
        ids = [replay.sample(100, gamma=0.9)["ids"] for replay in (mine, theirs)]
        assert not torch.equal(*ids)
        updates = b.num_updates
        b.train()
        assert b.num_updates > updates  # at once


def test_a_run_that_is_paused_before_every_update_is_refused(tmp_path: Path) -> None:
    """As by HyperBand: it would refill its buffer for ever and learn nothing."""
    settings = {**TINY, "store_buffer_in_checkpoints": False}
    with DQN(config=settings) as algo:
        algo.train()
        folder = algo.save(str(tmp_path / "0"))
        for pause in range(1, 4):
            algo.restore(folder)
            folder = algo.save(str(tmp_path / str(pause)))
        with pytest.raises(ConfigError, match="store_buffer_in_checkpoints = False"):
            algo.restore(folder)


def test_an_update_between_two_pauses_is_enough(tmp_path: Path) -> None:
    settings = {**TINY, "store_buffer_in_checkpoints": False}
    with DQN(config=settings) as algo:
        for pause in range(4):
            algo.train()
            algo.restore(algo.save(str(tmp_path / str(pause))))


def test_the_first_result_has_learned_something() -> None:
    """A metric that appears later is lost where columns are fixed by the first result."""
    changes = {"num_steps_sampled_before_learning_starts": 400, "replay_buffer_config": {}}
    with DQN(config={**TINY, **changes}) as algo:
        first, second = algo.train(), algo.train()
    assert first["num_updates_lifetime"] > 0
    assert set(second) <= set(first)
