"""DQN and SAC on learner actors: as in the trial's own process, and after one has died."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from learner_functions import pid_of

from trainables import DQN, SAC, Algorithm
from trainables.off_policy import OffPolicy

BATCH = 16
TINY: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "model": {"fcnet_hiddens": [16]},
    "num_envs_per_env_runner": 2,
    "num_steps_sampled_before_learning_starts": 60,
    "min_sample_timesteps_per_iteration": 60,
    "training_intensity": 8,
    "rollout_fragment_length": 5,
    "store_buffer_in_checkpoints": True,
    "replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 400},
}
MEMORY = {
    "model": {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 4},
    "replay_buffer_config": {"capacity": 400},
}
CASES: dict[str, tuple[type[OffPolicy], dict[str, Any]]] = {
    "rainbow": (DQN, {"noisy": True, "num_atoms": 7, "n_step": [1, 3]}),
    "memory": (DQN, MEMORY),
    "noise": (DQN, {"exploration_config": {"type": "ParameterNoise"}}),
    "sac": (SAC, {"env": "Pendulum-v1", "observation_filter": "MeanStdFilter"}),
    "discrete": (SAC, {}),
}


@pytest.fixture(scope="module")
def small_ray() -> Iterator[None]:
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def settings_of(name: str, num_learners: int) -> dict[str, Any]:
    rows = BATCH // max(1, num_learners)
    learners = {"num_learners": num_learners, "train_batch_size_per_learner": rows}
    return TINY | CASES[name][1] | learners


def make(name: str, num_learners: int) -> OffPolicy:
    return CASES[name][0](settings_of(name, num_learners))


def weights(algo: Any) -> np.ndarray:
    return np.concatenate([w.ravel() for w in algo.get_weights()["default_policy"].values()])


ON_ACTORS = pytest.mark.full(
    "unit/core/learning/test_ranks.py::test_several_learners_learn_what_one_does"
)
NEEDS_RAY = pytest.mark.usefixtures("small_ray")


@ON_ACTORS
@NEEDS_RAY
@pytest.mark.parametrize("num_learners", [1, 2])
@pytest.mark.parametrize("names", [("rainbow", "memory", "noise"), ("sac", "discrete")])
def test_learners_learn_what_the_trials_own_process_learns(
    names: tuple[str, ...], num_learners: int
) -> None:
    """One does so to the bit. The same processes take one config after the other."""
    tolerance = 0 if num_learners == 1 else 2e-3
    with make(names[0], num_learners) as algo:
        for name in names:
            algo.reset_config(settings_of(name, num_learners))
            with make(name, 0) as own:
                for _ in range(2):
                    expected, result = own.train(), algo.train()
                    for key in ("num_updates_lifetime", "num_env_steps_trained_lifetime"):
                        assert result[key] == expected[key] > 0
                    for key in expected:
                        if key.startswith(("learner/", "exploration/", "replay/")):
                            known = pytest.approx(expected[key], rel=tolerance, abs=tolerance)
                            assert result[key] == known, (name, key)
                    np.testing.assert_allclose(
                        weights(algo), weights(own), rtol=0, atol=tolerance / 20, err_msg=name
                    )


@ON_ACTORS
@NEEDS_RAY
@pytest.mark.parametrize("name", ["rainbow", "sac"])
def test_a_run_with_a_learner_actor_resumes_to_the_bit(name: str, tmp_path: Path) -> None:
    """And its checkpoint goes on in process, where it learns the same."""
    with make(name, 1) as whole:
        whole.train()
        whole.save(str(tmp_path / "c"))
        with Algorithm.from_checkpoint(tmp_path / "c") as restored, make(name, 0) as own:
            own.restore(str(tmp_path / "c"))
            for algo in (whole, restored, own):
                for _ in range(4):
                    algo.training_step()
            assert restored.num_updates == whole.num_updates
            np.testing.assert_array_equal(weights(restored), weights(whole))
            assert own.num_updates == whole.num_updates
            if name == "rainbow":  # SAC draws its noise in the trial's process
                np.testing.assert_array_equal(weights(own), weights(whole))


@ON_ACTORS
@NEEDS_RAY
@pytest.mark.parametrize("name", ["rainbow", "sac"])
def test_a_lost_learner_is_made_again_and_training_goes_on(name: str) -> None:
    with make(name, 2) as algo:
        assert algo.train()["num_learner_restarts"] == 0
        before, updates = weights(algo), algo.num_updates
        os.kill(algo.learners.run(pid_of, {}), signal.SIGKILL)
        result = algo.train()
        assert result["num_learner_restarts"] == 1
        assert algo.num_updates > updates and not np.array_equal(weights(algo), before)
        assert algo.train()["num_learner_restarts"] == 1


def test_batches_are_of_all_learners() -> None:
    """More learners than slots may share them: what they share are rows."""
    one, four = ({"num_learners": count, "training_intensity": 8} for count in (1, 4))
    for algorithm, settings in CASES.values():
        configs = [
            algorithm.config_class.from_dict(TINY | settings | count) for count in (one, four)
        ]
        for config in configs:
            config.validate()
        assert configs[0].updates_per_env_step == 4 * configs[1].updates_per_env_step
