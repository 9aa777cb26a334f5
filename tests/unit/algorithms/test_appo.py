"""APPO as a whole: how often batches come again, when its target moves, what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import Golden, refusals
from small_runs import without_clocks

from trainables import APPOConfig
from trainables.appo import APPO
from trainables.runtime.learners.group import LocalLearnerGroup

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "num_envs_per_env_runner": 4,
    "rollout_fragment_length": 16,
    "train_batch_size_per_learner": 60,
    "max_env_steps_without_episode": 10**6,
}


def target_of(algo: APPO) -> torch.Tensor:
    [target] = algo.learners["default_policy"].targets.values()
    return torch.cat([p.detach().flatten() for p in target.network.parameters()])


def online_of(algo: APPO) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in algo.get_policy().module.parameters()])


def results_of(algo: APPO) -> dict[str, Any]:
    return {k: v for k, v in without_clocks(algo.train()).items() if k != "config"}


def test_one_by_one_draws_every_batch_once_and_n_by_k_draws_it_k_times() -> None:
    for size, uses in ((1, 1), (2, 3)):
        buffer = {
            "circular_buffer_num_batches": size,
            "circular_buffer_iterations_per_batch": uses,
        }
        with APPO(config={**SMALL, **buffer}) as algo:
            for _ in range(6 * uses):
                algo.training_step()
            trained, sampled = algo.num_env_steps_trained, algo.num_env_steps_sampled
        left = uses - 1 if size > 1 else 0  # draws of the newest batch that are not due yet
        assert uses * (sampled - left * 64) <= trained <= uses * sampled
        assert (trained == sampled) == (uses == 1)


@pytest.mark.parametrize(("freq", "every"), [(0.5, 2), (1.0, 4)])
def test_the_target_moves_every_freq_x_n_x_k_train_batches(freq: float, every: int) -> None:
    settings = {
        **SMALL,
        "lr": 1e-3,
        "num_envs_per_env_runner": 1,
        "rollout_fragment_length": 64,
        "train_batch_size_per_learner": 50,  # about as many steps of a fragment are valid
        "circular_buffer_num_batches": 2,
        "circular_buffer_iterations_per_batch": 2,
        "target_network_update_freq": freq,
        "tau": 1.0,
    }
    with APPO(config=settings) as algo:
        moved, last = 0, target_of(algo)
        for _ in range(16):
            result = algo.training_step()
            target = target_of(algo)
            flag = result["learner/default_policy/target_updated"]
            assert bool(flag) == (not torch.equal(target, last))
            if flag:
                moved, last = moved + 1, target
                assert torch.equal(target, online_of(algo))
        assert moved == 16 // every


def test_the_targets_period_is_in_train_batches_however_large_they_are() -> None:
    """Fragments of 64 steps for a batch of 40: it still moves with every fourth, not earlier."""
    settings = {**SMALL, "train_batch_size_per_learner": 40, "target_network_update_freq": 1.0}
    with APPO(config=settings) as algo:
        steps = [algo.training_step() for _ in range(12)]
    flags = [step["learner/default_policy/target_updated"] for step in steps]
    assert flags == [0, 0, 0, 1] * 3


def test_what_was_lost_with_a_learner_counts_nowhere() -> None:
    class Losing(LocalLearnerGroup):
        """Loses the first two updates."""

        num_lost = 0

        def submit(self, function: Any, data: Any, *args: Any) -> None:
            if self.num_lost < 2:
                self.num_lost += 1
            else:
                super().submit(function, data, *args)

    buffer = {"circular_buffer_num_batches": 1, "circular_buffer_iterations_per_batch": 1}
    with APPO(config={**SMALL, **buffer, "target_network_update_freq": 2.0}) as algo:
        algo.learners = Losing(algo.learners.worker)
        results = [algo.training_step() for _ in range(6)]
        trained, sampled = algo.num_env_steps_trained, algo.num_env_steps_sampled
        assert algo._num_updates == 4
    assert 0 < trained < sampled
    key = "learner/default_policy/target_updated"
    assert [result.get(key) for result in results] == [None, None, 0, 1, 0, 1]


def test_an_update_that_is_lost_while_it_is_awaited_is_no_timeout() -> None:
    class Restarting(LocalLearnerGroup):
        """Is made again while its results are awaited."""

        queued = 1

        @property
        def num_queued(self) -> int:
            return self.queued

        def finished(self, timeout_s: float | None = 0.0) -> list[Any]:
            self.queued = 0
            return []

    with APPO(config={**SMALL, "learner_queue_timeout": 1e-9}) as algo:
        algo.learners = Restarting(algo.learners.worker)
        assert algo._results() == {}


def test_tau_is_how_far_the_target_moves() -> None:
    settings = {**SMALL, "tau": 0.25, "target_network_update_freq": 0.001, "lr": 0.01}
    with APPO(config=settings) as algo:
        before = target_of(algo)
        algo.training_step()
        torch.testing.assert_close(target_of(algo), before.lerp(online_of(algo), 0.25))


def test_with_an_optimiser_of_its_own_the_value_function_has_no_target() -> None:
    settings = {**SMALL, "_separate_vf_optimizer": True, "target_network_update_freq": 0.001}
    with APPO(config={**settings, "lr": 0.01}) as algo:
        algo.training_step()
        module = algo.get_policy().module
        [target] = algo.learners["default_policy"].targets.values()
        copies = dict(target.network.named_parameters())
        for name, parameter in module.named_parameters():
            assert torch.equal(copies[name], parameter) == (not name.startswith("value_")), name


def test_the_penalty_adapts_when_the_target_moves_and_only_then() -> None:
    kl = {"use_kl_loss": True, "kl_coeff": 0.5, "kl_target": 1e-9}
    settings = {**SMALL, **kl, "lr": 0.01, "target_network_update_freq": 1.0}
    with APPO(config=settings) as algo:
        for _ in range(8):
            [before] = algo.kl_coeffs.values()
            result = algo.training_step()
            moved = result["learner/default_policy/target_updated"]
            [now] = algo.kl_coeffs.values()
            assert now == before * (1.5 if moved else 1.0)
            assert result["learner/default_policy/curr_kl_coeff"] == now
        assert now > 0.5
        assert algo.get_learned_state()["kl_coeff"] == now


def test_the_penalty_sees_how_far_the_policy_has_come_from_a_target_that_always_moves() -> None:
    kl = {"use_kl_loss": True, "kl_coeff": 0.5, "kl_target": 1e-9}
    with APPO(config={**SMALL, **kl, "lr": 0.01, "target_network_update_freq": 0.001}) as algo:
        result = algo.training_step()
        assert result["learner/default_policy/kl_after_update"] > 1e-4
        assert algo.kl_coeffs == {"default_policy": 0.75}


def test_a_resumed_run_draws_the_batches_that_were_in_the_buffer(tmp_path: Path) -> None:
    buffer = {"circular_buffer_num_batches": 3, "circular_buffer_iterations_per_batch": 4}
    with APPO(config={**SMALL, **buffer, "lr": 0.01}) as algo:
        for _ in range(5):
            algo.train()
        algo.save(str(tmp_path))
        expected = [results_of(algo) for _ in range(5)]
    with APPO.from_checkpoint(tmp_path) as resumed:
        assert len(resumed._buffer) > 1
        assert [results_of(resumed) for _ in range(5)] == expected


def test_a_clone_goes_on_with_its_donors_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    with APPO(config=SMALL) as donor:
        for _ in range(6):
            donor.train()
        state = donor.get_state()
        version = donor.env_runners.weights_version
    with APPO(config=SMALL) as clone:
        monkeypatch.setattr(clone, "is_clone_of", lambda state: True)
        clone.set_state(state)
        assert clone.env_runners.weights_version == version + 1
        assert clone.train()["learner/default_policy/policy_lag"] >= 0


def test_without_the_buffer_in_its_checkpoint_it_samples_first(tmp_path: Path) -> None:
    with APPO(config={**SMALL, "store_buffer_in_checkpoints": False}) as algo:
        algo.train()
        algo.save(str(tmp_path))
    with APPO.from_checkpoint(tmp_path) as resumed:
        assert len(resumed._buffer) == 0
        sampled = resumed.num_env_steps_sampled
        resumed.train()
        assert resumed.num_env_steps_sampled > sampled


def test_refused(golden: Golden) -> None:
    cases = [
        {"use_gae": False},
        {"replay_proportion": 1.0},
        {"loss_reduction": "sum"},
        {"circular_buffer_num_batches": 0},
        {"circular_buffer_iterations_per_batch": 0},
        {"target_network_update_freq": 0},
        {"target_worker_clipping": 0.0},
        {"tau": 1.5},
        {"use_critic": False},
        {"target_update_frequency": 4},
        {"use_circular_buffer": False},
    ]
    golden(
        "appo/refused",
        refusals(lambda given: APPOConfig.from_dict({**SMALL, **given}).validate(), cases),
    )


def test_returns_minus_values_are_gae_with_lambda_one() -> None:
    weights = []
    for more in ({"use_gae": False, "lambda_": 0.3}, {"lambda_": 1.0}, {"lambda_": 0.3}):
        with APPO(config={**SMALL, "vtrace": False, "lr": 0.01, **more}) as algo:
            algo.training_step()
            weights.append(online_of(algo).numpy())
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])
