"""A second network with an optimiser of its own adds a bonus to PPO's rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from curious import CuriousDQN, CuriousPPO
from page_blocks import block_with
from safetensors.torch import load_file

from trainables import DQN, PPO, DQNConfig, PPOConfig
from trainables.core.errors import ConfigError

pytestmark = pytest.mark.usefixtures("ray_here")


def make_config(num_learners: int = 0) -> dict[str, Any]:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_envs_per_env_runner=4)
    config.training(minibatch_size=64, num_epochs=2, lr=1e-3, model={"fcnet_hiddens": [16]})
    config.training(train_batch_size_per_learner=256 // max(1, num_learners))
    return config.learners(num_learners=num_learners).debugging(seed=5).to_dict()


def weights(algo: PPO | DQN) -> np.ndarray:
    return np.concatenate([w.ravel() for w in algo.get_weights()["default_policy"].values()])


def learned(algo: PPO) -> list[Any]:
    """Weights and moments of the second network."""
    state = algo.learners.get_state()["parts"]["default_policy"]["novelty"]
    return [state["weights"], state["learner"]["moments"]]


def tensors(algo: PPO, folder: Path) -> set[tuple[str, ...]]:
    """Names of what an exported policy holds, by file."""
    exported = algo.export_policy_checkpoint(str(folder))
    return {(p.name, *sorted(load_file(p))) for p in exported.glob("*.safetensors")}


def test_two_learners_give_the_bonus_that_one_gives() -> None:
    with CuriousPPO(make_config()) as own, CuriousPPO(make_config(2)) as two:
        for _ in range(3):
            expected, result = own.train(), two.train()
            for name in ("novelty/loss", "novelty/grad_norm", "novelty/bonus_mean", "vf_loss"):
                key = f"learner/default_policy/{name}"
                assert result[key] == pytest.approx(expected[key], rel=1e-4), name
        np.testing.assert_allclose(weights(two), weights(own), atol=1e-5)
        with PPO(make_config()) as without:
            for _ in range(3):
                assert not any("novelty" in name for name in without.train())
            assert not np.allclose(weights(without), weights(own), atol=1e-3)


def test_drawn_batches_get_the_bonus_in_process_and_on_two_learners() -> None:
    def make(kind: type[DQN], num_learners: int) -> DQN:
        config = DQNConfig(env="CartPole-v1", seed=5, num_learners=num_learners, lr=1e-3)
        config.training(train_batch_size_per_learner=32 // max(1, num_learners))
        config.training(num_steps_sampled_before_learning_starts=100, model={"fcnet_hiddens": [8]})
        return kind(config.reporting(min_sample_timesteps_per_iteration=300).to_dict())

    with make(CuriousDQN, 0) as own, make(CuriousDQN, 2) as two, make(DQN, 0) as without:
        expected, result = own.train(), two.train()
        for name in ("novelty/loss", "novelty/grad_norm", "qf_loss"):
            key = f"learner/default_policy/{name}"
            assert result[key] == pytest.approx(expected[key], rel=1e-3), name
        np.testing.assert_allclose(weights(two), weights(own), atol=1e-4)
        without.train()
        assert not np.allclose(weights(without), weights(own), atol=1e-3)


@pytest.mark.parametrize("num_learners", [pytest.param(0, marks=pytest.mark.full), 2])
def test_it_resumes_to_the_bit_and_is_in_no_exported_policy(
    num_learners: int, tmp_path: Path
) -> None:
    with CuriousPPO(make_config(num_learners)) as algo:
        algo.train()
        exported = tensors(algo, tmp_path / "policy")
        saved = algo.save(str(tmp_path / "saved"))
        algo.train()
        expected = weights(algo), learned(algo)
    with CuriousPPO.from_checkpoint(saved) as resumed:
        resumed.train()
        np.testing.assert_array_equal(weights(resumed), expected[0])
        torch.testing.assert_close(learned(resumed), expected[1], rtol=0, atol=0)
    with PPO(make_config()) as plain:
        assert exported == tensors(plain, tmp_path / "plain")


def test_a_state_without_the_network_is_refused() -> None:
    with PPO(make_config()) as plain, CuriousPPO(make_config()) as curious:
        state, before = plain.get_state(), weights(curious)
        assert "parts" not in state["learners"]
        state["policies"]["default_policy"]["weights"] = {
            name: value + 1
            for name, value in plain.get_state()["policies"]["default_policy"]["weights"].items()
        }
        with pytest.raises(ConfigError, match="without the part 'novelty'"):
            curious.set_state(state)
        np.testing.assert_array_equal(weights(curious), before)


@pytest.mark.parametrize("num_learners", [0, pytest.param(1, marks=pytest.mark.full)])
def test_what_a_run_has_no_network_for_is_told(
    num_learners: int, caplog: pytest.LogCaptureFixture
) -> None:
    with CuriousPPO(make_config()) as curious, PPO(make_config(num_learners)) as plain:
        plain.set_state(curious.get_state())
    [told] = [r.getMessage() for r in caplog.records if "make_learner_parts" in r.getMessage()]
    assert "novelty" in told


def test_the_guides_part_runs() -> None:
    names: dict[str, Any] = {}
    exec(block_with("trainables/guides/your_own.md", "class Novelty"), names)
    with names["CuriousPPO"](make_config()) as algo:
        first, second = (algo.train()["learner/default_policy/novelty/loss"] for _ in range(2))
        assert second < first
