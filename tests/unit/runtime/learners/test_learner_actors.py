"""Learner actors: they learn what the trial's own process would, and may die."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
import torch
from learner_functions import add, always_die, fail_on_one, kill_in_update, pid_of, vector

from trainables import PPO, PPOConfig
from trainables.algorithm import Algorithm

pytestmark = pytest.mark.full(
    "unit/core/learning/test_ranks.py::test_several_learners_learn_what_one_does"
)


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    ray.init(address="local", num_cpus=3, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def make_config(num_learners: int, **training: Any) -> PPOConfig:
    rows = 160 // max(1, num_learners)
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs_per_env_runner=4, observation_filter="MeanStdFilter")
        .training(
            **{
                "train_batch_size_per_learner": rows,
                "minibatch_size": 64,
                "num_epochs": 2,
                "lr": [[0, 3e-3], [4000, 0.0]],
                "use_kl_loss": True,
                **training,
            }
        )
        .learners(num_learners=num_learners)
        .debugging(seed=1)
    )


MEMORY = {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 5}


def weights(algo: Algorithm) -> np.ndarray:
    return np.concatenate([w.ravel() for w in algo.get_weights()["default_policy"].values()])


def test_four_learners_of_a_quarter_share_a_gpu() -> None:
    quarter = (
        PPOConfig().resources(num_cpus_for_main_process=0.25).learners(num_gpus_per_learner=0.25)
    )
    request = PPO.default_resource_request(quarter)
    assert request.bundles == [{"CPU": 0.25, "GPU": 0.25}]
    trials = [request() for _ in range(5)]
    ready, waiting = ray.wait([trial.ready() for trial in trials], num_returns=4, timeout=60)
    assert len(ready) == 4
    assert ray.wait(waiting, timeout=1)[1] == waiting  # there is no fifth quarter
    for trial in trials:
        ray.util.remove_placement_group(trial)


@pytest.fixture(scope="module")
def two(_ray: None) -> Iterator[PPO]:
    algo = make_config(2).build()
    yield algo
    algo.stop()


def test_two_learners_learn_what_the_trials_own_process_learns(two: PPO) -> None:
    with make_config(0).build() as own:
        for _ in range(2):
            expected, result = own.train(), two.train()
            for name in ("total_loss", "kl_after_update", "vf_explained_var", "grad_norm"):
                key = f"learner/default_policy/{name}"
                assert result[key] == pytest.approx(expected[key], rel=1e-3, abs=1e-5), name
            np.testing.assert_allclose(weights(two), weights(own), atol=1e-5)
            assert (
                result["num_env_steps_trained_lifetime"] == result["num_env_steps_sampled_lifetime"]
            )
    one, other = two.learners.run(vector, {})
    assert torch.equal(one, other)
    np.testing.assert_allclose(one.sort().values, np.sort(weights(two)))


def test_a_state_goes_from_two_learners_to_none_and_back(two: PPO) -> None:
    two.train()
    with PPO.from_state({**two.get_state(), "config": make_config(0).to_dict()}) as own:
        np.testing.assert_array_equal(weights(own), weights(two))
        own.train(), two.train()
        np.testing.assert_allclose(weights(own), weights(two), atol=1e-5)
        own.train()
        assert not np.allclose(weights(own), weights(two), atol=1e-5)
        two.set_state(own.get_state())
        own.train(), two.train()
        np.testing.assert_allclose(weights(own), weights(two), atol=1e-5)


def test_updates_are_queued_and_fetch_what_references_stand_for(two: PPO) -> None:
    group = two.learners
    for number in range(3):
        group.submit(add, [ray.put(10), ray.put(20)], number)  # each learner has one of them
    results: list[int] = []
    while len(results) < 3:
        assert group.num_queued <= 3 - len(results)
        found = group.finished(60)
        assert found  # it waits until every rank is done
        results += found
    assert results == [30, 31, 32] and group.num_queued == 0
    assert group.finished(0) == []


def test_the_same_processes_take_another_config(two: PPO) -> None:
    pid = two.learners.run(pid_of, {})
    two.reset_config(make_config(2, lr=1e-4).to_dict())
    assert two.learners.run(pid_of, {}) == pid
    assert two.train()["learner/default_policy/curr_lr"] == 1e-4


@pytest.mark.parametrize("model", [{}, MEMORY], ids=["", "memory"])
def test_whole_episodes_are_shared_out_by_slots(two: PPO, model: dict[str, Any]) -> None:
    """Columns are as long as the longest, and each learner has those of half of the slots."""
    mode = {"batch_mode": "complete_episodes", "model": model}
    two.reset_config({**make_config(2).to_dict(), **mode})
    with PPO({**make_config(0).to_dict(), **mode}) as own:
        for _ in range(2):
            expected, result = own.train(), two.train()
            assert result["num_env_steps_sampled"] == expected["num_env_steps_sampled"] > 160
            for name in ("total_loss", "kl_after_update", "vf_explained_var", "grad_norm"):
                key = f"learner/default_policy/{name}"
                assert result[key] == pytest.approx(expected[key], rel=1e-3, abs=1e-5), name
            np.testing.assert_allclose(weights(two), weights(own), atol=1e-5)
    two.reset_config(make_config(2).to_dict())


def test_what_an_update_raises_is_raised_and_not_what_follows_from_it(two: PPO) -> None:
    with pytest.raises(ValueError, match="this rank cannot"):
        two.learners.run(fail_on_one, {})
    assert two.learners.num_restarts == 0
    assert two.train()["num_learner_restarts"] == 1  # they no longer had the same weights


def test_a_dead_learner_is_made_again_from_the_last_state(two: PPO, tmp_path: Any) -> None:
    before, restarts = weights(two), two.learners.num_restarts
    file = str(tmp_path / "died")
    assert two.learners.run(kill_in_update, {"file": [file, file]}, 1) == "done"  # it is repeated
    assert two.learners.num_restarts == restarts + 1
    one, other = two.learners.run(vector, {})
    assert torch.equal(one, other)
    np.testing.assert_array_equal(np.sort(one), np.sort(before))
    result = two.train()
    assert result["num_learner_restarts"] == restarts + 1
    assert not np.allclose(weights(two), before)


def test_learners_that_die_again_and_again_end_the_trial(
    two: PPO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainables.runtime.learners.remote_group._MAX_RESTARTS_IN_A_ROW", 0)
    with pytest.raises(RuntimeError, match=r"lost 1 times in a row.*died"):
        two.learners.run(always_die, {})
