"""Two modules by slot learn from experience, counts and exploration of their own."""

from pathlib import Path
from typing import Any

import numpy as np

from trainables import DQN

SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "num_envs_per_env_runner": 3,
    "num_steps_sampled_before_learning_starts": 30,
    "min_sample_timesteps_per_iteration": 60,
    "train_batch_size_per_learner": 8,
    "training_intensity": 2.5,
    "target_network_update_freq": 7,
    "model": {"fcnet_hiddens": [8]},
    "exploration_config": {"type": "ParameterNoise"},
    "store_buffer_in_checkpoints": True,
    "replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 300},
}


class TwoDQN(DQN):
    """Slots 0 and 2 are one module's, slot 1 is another's with a wider network."""

    @classmethod
    def module_ids(cls, config: Any) -> tuple[str, ...]:
        return ("even", "odd")

    @staticmethod
    def module_of_slot(slot: int, worker_index: int) -> str:
        return "odd" if slot % 2 else "even"

    def policy_options(self, module_id: str) -> dict[str, Any]:
        return {} if module_id == "even" else {"model": {"fcnet_hiddens": [12]}}


class OneOfTwoDQN(TwoDQN):
    """The other module gets no rows."""

    def _gathered(self) -> dict[str, int]:
        new_steps = self.experience.add({"even": self.sample()["even"]})
        return {"odd": 0, **new_steps}


def weights(algo: TwoDQN) -> dict[str, np.ndarray]:
    return {
        module_id: np.concatenate([array.ravel() for array in arrays.values()])
        for module_id, arrays in algo.get_weights().items()
    }


def test_each_module_learns_from_its_own_rows_and_a_resumed_run_goes_on_to_the_bit(
    tmp_path: Path,
) -> None:
    with TwoDQN(SETTINGS) as algo:
        before = weights(algo)
        for _ in range(3):
            result = algo.train()
        even, odd = (algo.experience[module_id] for module_id in ("even", "odd"))
        assert even.num_added + odd.num_added == algo.num_env_steps_sampled
        assert 1.8 < even.num_added / odd.num_added < 2.2  # twice as many slots
        learned = algo.get_learned_state()
        counts = learned["num_updates"]
        for module_id, store in algo.experience.items():
            # None for the steps that were sampled until the other had enough, too.
            most = (store.num_added - 30) * 2.5 / 8
            assert 0.5 * most < counts[module_id] <= most
            assert not np.array_equal(weights(algo)[module_id], before[module_id])
            assert result[f"learner/{module_id}/q_mean"] != 0
        assert sum(counts.values()) == result["num_updates_lifetime"] == algo.num_updates
        stddevs = [result[f"exploration/{module_id}/stddev"] for module_id in ("even", "odd")]
        assert stddevs[0] != stddevs[1]
        algo.save(str(tmp_path))
        with TwoDQN.from_checkpoint(str(tmp_path)) as resumed:
            assert resumed.get_learned_state() == learned
            for one in (algo, resumed):
                for _ in range(20):
                    one.training_step()
            for module_id, expected in weights(algo).items():
                np.testing.assert_array_equal(weights(resumed)[module_id], expected)
            assert resumed.get_learned_state()["num_updates"] != counts


def test_the_model_of_a_module_keeps_what_it_does_not_name() -> None:
    settings = {**SETTINGS, "model": {"fcnet_hiddens": [8, 8], "fcnet_initializer": "default"}}
    with TwoDQN(settings) as algo:
        even, odd = (algo.policies[module_id].options["model"] for module_id in ("even", "odd"))
        assert even == algo.config.resolve().model.given
        assert odd == {**even, "fcnet_hiddens": [12]}
        assert odd["fcnet_activation"] == "relu"  # DQN's, not the general default
        assert odd["fcnet_initializer"] == "default"


def test_the_first_result_waits_for_each_module_that_has_rows() -> None:
    """The one with one slot has enough after twice as many steps."""
    with TwoDQN(SETTINGS | {"min_sample_timesteps_per_iteration": 1}) as algo:
        first, second = algo.train(), algo.train()
        assert all(algo.get_learned_state()["num_updates"].values())
    assert {name for name in second if name.startswith("learner/odd/q")}
    assert set(second) <= set(first)


def test_a_module_without_rows_does_not_keep_others_from_learning(tmp_path: Path) -> None:
    """Nor from being restored again and again."""
    with OneOfTwoDQN(SETTINGS | {"store_buffer_in_checkpoints": False}) as algo:
        before = weights(algo)
        for pause in range(5):
            result = algo.train()
            counts = algo.get_learned_state()["num_updates"]
            assert counts["even"] == result["num_updates_lifetime"] > 0 == counts["odd"]
            algo.restore(algo.save(str(tmp_path / str(pause))))
        after = weights(algo)
    assert np.array_equal(after["odd"], before["odd"])
    assert not np.array_equal(after["even"], before["even"])
