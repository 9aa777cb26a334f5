"""DQN and SAC with env runners in actors: replay ratio, and exploration from the first step."""

import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from fakes import EndlessEnv

from trainables import DQN, SAC, DreamerV3
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.off_policy import OffPolicy

pytestmark = pytest.mark.usefixtures("ray_here")
TINY: dict[str, Any] = {
    "env": EndlessEnv,
    "env_config": {"horizon": 3},
    "seed": 1,
    "num_env_runners": 2,
    "num_envs_per_env_runner": 3,
    "rollout_fragment_length": 20,
    "model": {"fcnet_hiddens": [8]},
    "num_steps_sampled_before_learning_starts": 100,
    "train_batch_size_per_learner": 8,
    "training_intensity": 3,
    "replay_buffer_config": {"capacity": 2000},
}


def sampled(algo: Any) -> np.ndarray:
    """The actions of one round, after it was learned from."""
    sample, taken = algo.sample, []

    def recording() -> Any:
        rollouts = sample()
        rollout = rollouts["default_policy"]
        taken.append(rollout.actions[rollout.valid])
        return rollouts

    algo.sample = recording
    algo.training_step()
    algo.sample = sample
    return taken[0]


def test_replay_ratio_and_exploration_of_two_env_runners() -> None:
    with DQN(TINY | {"epsilon": [[0, 1.0], [200, 0.0]]}) as algo:
        first = sampled(algo)
        assert 0.2 < first.mean() < 0.8  # epsilon is 1
        for _ in range(5):
            steps = algo.num_env_steps_sampled
            assert algo.num_updates == max(0, steps - 100) * Fraction(3, 8) // 1
            last = sampled(algo)
        assert steps > 200 and algo.num_updates > 50
        assert len(set(last.tolist())) == 1  # epsilon is 0, and all states look the same
        epsilons = algo.env_runners.foreach_env_runner(
            lambda runner: runner.policy.distribution.epsilon  # type: ignore[attr-defined]
        )
        assert epsilons == [0, 0]


def test_remote_env_runners_have_the_present_values_of_exploration() -> None:
    exploration = {"type": "OrnsteinUhlenbeckNoise", "random_timesteps": 70, "scale_timesteps": 100}
    settings = {"env": "Pendulum-v1", "env_config": {}, "exploration_config": exploration}
    with SAC(TINY | settings) as algo:
        for _ in range(2):
            scale = algo.training_step()["exploration/scale"]
        seen = algo.env_runners.foreach_env_runner(
            lambda runner: (runner.policy.explorer.scale, runner.policy.explorer.uniform)  # type: ignore[attr-defined]
        )
        assert 0.02 < scale < 1 and seen == [(scale, False)] * 2
        noises = algo.env_runners.foreach_env_runner(
            lambda runner: runner.recorders[DEFAULT_MODULE_ID].actor.get_state()["explored"]["x"]
        )
        assert np.abs(noises[0] - noises[1]).min() > 0  # each runner has noise of its own


def test_the_warm_up_of_a_remote_env_runner_is_uniform_from_the_first_step() -> None:
    settings = {
        "env": "fakes:limited_walk",
        "env_config": {},
        "num_env_runners": 1,
        "policy_model_config": {"initial_log_std": -4.0},
    }
    with SAC(TINY | settings) as algo:
        actions = np.tanh(sampled(algo))
        assert len(actions) > 50 and actions.var() > 0.2  # 1/3; the policy's would be 3e-4


def test_an_older_state_that_is_restored_is_learned_on_from_by_the_env_runners(
    tmp_path: Path,
) -> None:
    """They have what was learned since, though more updates were made before."""
    settings = {"num_env_runners": 1, "store_buffer_in_checkpoints": True, "lr": 1e-2}
    with DQN(TINY | settings) as algo:
        while not algo.num_updates:
            algo.training_step()
        saved = algo.save(str(tmp_path / "older"))
        for _ in range(5):
            algo.training_step()
        updates = algo.num_updates
        algo.restore(saved)
        algo.training_step()
        assert algo.num_updates < updates
        (theirs,) = algo.env_runners.foreach_env_runner(
            lambda runner: runner.policy.get_weights()  # type: ignore[attr-defined]
        )
        for name, value in algo.get_weights()["default_policy"].items():
            assert np.array_equal(theirs[name], value), name


ROUND = 2 * 3 * 20 * 3 // 4
"""Environment steps of a round: every fourth row begins an episode."""
SMALL_DREAM: dict[str, Any] = {
    "model": {},
    "model_size": "nano",
    "batch_size_B": 2,
    "batch_length_T": 4,
    "horizon_H": 3,
    "training_ratio": 2,
    "training_intensity": None,
    "train_batch_size_per_learner": 256,
}


@pytest.mark.parametrize("algorithm", [DQN, pytest.param(DreamerV3, marks=pytest.mark.full)])
def test_the_next_fragments_are_sampled_while_the_learner_learns(
    algorithm: type[OffPolicy], tmp_path: Path
) -> None:
    own = SMALL_DREAM if algorithm is DreamerV3 else {}
    settings = TINY | own | {"sample_while_learning": True, "store_buffer_in_checkpoints": True}
    with algorithm(settings) as algo:
        group: Any = algo.env_runners
        under_way: list[list[int]] = []
        run = algo.learners.run

        def running(*arguments: Any) -> Any:
            under_way.append([group._group.num_in_flight(index) for index in (1, 2)])
            return run(*arguments)

        algo.learners.run = running  # type: ignore[method-assign]
        while not algo.num_updates:
            algo.training_step()
        assert under_way and all(each == [1, 1] for each in under_way)
        version = group.weights_version
        (used, _) = [sample.weights_version for sample in group._sample_each()]
        assert used == version - 1  # they were asked for before what was learned last
        steps = algo.num_env_steps_sampled
        algo.training_step()
        assert algo.num_env_steps_sampled - steps == ROUND
        assert algo.experience.num_steps <= algo.num_env_steps_sampled
        saved = algo.save(str(tmp_path / "saved"))
        steps, updates = algo.num_env_steps_sampled, algo.num_updates
        algo.restore(saved)  # what was under way is lost, and was never counted
        assert algo.num_env_steps_sampled == steps
        algo.training_step()
        assert algo.num_env_steps_sampled - steps == ROUND
        assert algo.num_updates > updates


def test_an_env_runner_that_dies_while_the_learner_learns_is_made_again() -> None:
    settings = {"sample_while_learning": True, "restart_failed_env_runners": True}
    with DQN(TINY | settings) as algo:
        algo.training_step()
        group: Any = algo.env_runners
        ray.kill(group._group._members[1].actor)
        algo.training_step()
        deadline = time.monotonic() + 120
        while group.num_restarts < 1 or len(group._group.healthy) < 2:
            assert time.monotonic() < deadline
            algo.training_step()
        steps = algo.num_env_steps_sampled
        algo.training_step()
        assert algo.num_env_steps_sampled - steps == ROUND
