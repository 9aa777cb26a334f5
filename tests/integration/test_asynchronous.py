"""Env runners that go on while others learn: IMPALA and APPO over actors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import settings_of

from trainables import APPO, IMPALA
from trainables.runtime.sampling.group import Sample

pytestmark = pytest.mark.usefixtures("ray_here")
LEARNED = "learner/default_policy/"


def remote(**more: Any) -> IMPALA:
    return IMPALA(settings_of("IMPALA", num_env_runners=1, **more))


def test_it_trains_on_fragments_of_older_weights() -> None:
    """One is under way while the batch before it is trained on, so its weights are behind."""
    with remote(observation_filter="MeanStdFilter") as algo:
        results = [algo.train() for _ in range(4)]
        assert algo.env_runners.weights_version == algo.num_training_steps
        own = algo.get_policy().observations.filter
        assert own is not None and own.moments.count > 0
    assert max(result[f"{LEARNED}policy_lag"] for result in results) > 0
    assert any(result[f"{LEARNED}mean_rho"] != 1.0 for result in results)
    last = results[-1]
    assert last["num_env_steps_trained_lifetime"] <= last["num_env_steps_sampled_lifetime"]
    assert all(np.isfinite(v) for v in last.values() if isinstance(v, float))


def test_replayed_fragments_are_trained_on_too() -> None:
    with remote(replay_proportion=1.0, replay_buffer_num_slots=4) as algo:
        last = [algo.train() for _ in range(3)][-1]
    assert (
        last["num_env_steps_trained_lifetime"] > 1.5 * last["num_env_steps_sampled_lifetime"] - 500
    )


def test_a_learner_actor_trains_while_the_driver_goes_on() -> None:
    """The weights of updates that are finished come back, at the latest when the queue is full."""
    settings = settings_of("IMPALA", num_learners=1, learner_queue_size=2)
    with IMPALA(settings) as algo:
        before = algo.get_weights()["default_policy"]
        results = [algo.train() for _ in range(4)]
        after = algo.get_weights()["default_policy"]
        assert algo.env_runners.weights_version > 0
    assert any(not np.array_equal(value, after[name]) for name, value in before.items())
    assert all(0 <= result["learner_queue_length"] <= 2 for result in results)
    assert np.isfinite(results[0][f"{LEARNED}total_loss"])


def test_a_memory_over_actors() -> None:
    model = {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8]}
    with remote(model=model) as algo:
        result = algo.train()
    assert np.isfinite(result[f"{LEARNED}total_loss"])


def test_a_run_with_actors_goes_on_from_its_checkpoint(tmp_path: Any) -> None:
    with remote() as algo:
        before = algo.train()
        algo.save(str(tmp_path / "c"))
        weights = algo.get_weights()["default_policy"]
    with IMPALA.from_checkpoint(tmp_path / "c") as resumed:
        for name, value in resumed.get_weights()["default_policy"].items():
            np.testing.assert_array_equal(value, weights[name])
        after = resumed.train()
    assert after["training_iteration"] == before["training_iteration"] + 1
    sampled = "num_env_steps_sampled_lifetime"
    assert after[sampled] > before[sampled]


def test_every_train_batch_of_appo_is_drawn_k_times_or_said_to_be_dropped(tmp_path: Path) -> None:
    """Also those that a run is saved with, which are other processes' until then."""
    with APPO(settings_of("APPO", num_env_runners=1)) as algo:
        uses = algo.config.circular_buffer_iterations_per_batch
        added: list[list[Sample]] = []
        add = algo._buffer.add
        algo._buffer.add = lambda batch: (added.append(batch), add(batch))[1]  # type: ignore[method-assign]
        for _ in range(6):
            last = algo.train()
        left = [entry for entry in algo._buffer.get_state() if entry is not None]
        lost = last["circular_buffer/num_dropped_draws"]
        due = uses * len(added) - lost - sum(uses - num_uses for _, num_uses in left)
        assert algo.num_training_steps == due > 6
        assert last["learner/default_policy/policy_lag"] > 0
        algo.save(str(tmp_path))
        kept = [[sample.num_env_steps for sample in batch] for batch, _ in left]
    with APPO.from_checkpoint(tmp_path) as resumed:
        assert [[sample.num_env_steps for sample in batch] for batch in resumed._buffer] == kept
        result = resumed.train()
    assert np.isfinite(result[f"{LEARNED}total_loss"])
