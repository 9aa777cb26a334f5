"""Modules that do not learn act, are saved and stay as they are; nothing of them is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainables import APPO, DQN, IMPALA, PPO
from trainables.core.errors import ConfigError

SHARED: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 300,
    "model": {"fcnet_hiddens": [8]},
    "min_time_s_per_iteration": 0,
}
REPLAY: dict[str, Any] = {
    "num_steps_sampled_before_learning_starts": 20,
    "train_batch_size_per_learner": 8,
    "min_sample_timesteps_per_iteration": 60,
    "replay_buffer_config": {"capacity": 300},
    "store_buffer_in_checkpoints": True,
}
CASES = [(PPO, {"use_kl_loss": True}), (DQN, REPLAY), (IMPALA, {}), (APPO, {"use_kl_loss": True})]


def of_two(base: type[Any], trained: tuple[str, ...] = ("learner",)) -> Any:
    """Return a class of two modules in turns, of which so many learn."""

    class OfTwo(base):  # type: ignore[misc]
        @classmethod
        def module_ids(cls, config: Any) -> tuple[str, ...]:
            return ("opponent", "learner")

        @classmethod
        def trained_modules(cls, config: Any) -> tuple[str, ...]:
            return trained

        @staticmethod
        def module_of_slot(slot: int, worker_index: int) -> str:
            return ("opponent", "learner")[slot % 2]

    return OfTwo


@pytest.mark.parametrize(("base", "settings"), CASES)
def test_only_modules_that_train_learn(
    base: type[Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    trainable = of_two(base)
    with trainable({**SHARED, **settings}) as algo:
        before = algo.get_weights()
        for _ in range(2):
            result = algo.train()
        after = algo.get_weights()
        same = {
            m: all(np.array_equal(w, before[m][n]) for n, w in weights.items())
            for m, weights in after.items()
        }
        assert same == {"opponent": True, "learner": False}
        assert {n.split("/")[1] for n in result if n.startswith("learner/")} == {"learner"}
        state = algo.get_state()
        assert state["policies"].keys() == {"opponent", "learner"}
        assert state["learners"]["learners"].keys() == {"learner"}
        if base is DQN:
            assert list(algo.experience) == ["learner"]
            assert algo.experience["learner"].num_added < 0.7 * algo.num_env_steps_sampled
        if base is APPO:
            stored = [s for entry in state["circular_buffer"] if entry for s in entry[0]]
            assert stored
            assert all(sample["rollouts"].keys() == {"learner"} for sample in stored)
        algo.save(str(tmp_path))
    with trainable.from_checkpoint(str(tmp_path)) as resumed:
        for m, weights in resumed.get_weights().items():
            for name, weight in weights.items():
                np.testing.assert_array_equal(weight, after[m][name])
        resumed.train()


@pytest.mark.parametrize("trained", [(), ("learner", "nobody")])
def test_modules_that_train_are_modules(trained: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"trained_modules = .*; allowed: at least one of 'opp"):
        of_two(PPO, trained)({**SHARED})
