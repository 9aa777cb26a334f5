"""A module that has nothing in a batch is left out of its update, and the others learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from thread_ranks import on_ranks
from torch import Tensor

from trainables import A2C, APPO, IMPALA, PPO
from trainables.appo import APPOPlan, appo_update
from trainables.core.data.batch import Rollout
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.minibatches import sequences_kept
from trainables.core.learning.part import no_parts
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.policy.policy import Policy
from trainables.impala import impala_update
from trainables.runtime.learners.actor import shares
from trainables.runtime.learners.group import make_worker

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "num_envs_per_env_runner": 2,
    "train_batch_size_per_learner": 300,
    "model": {"fcnet_hiddens": [8]},
}


def two_modules(base: type[Any], **settings: Any) -> Any:
    """Return an algorithm of which the module "even" acts in slot 0 and "odd" in slot 1."""

    class TwoModules(base):  # type: ignore[misc]
        @classmethod
        def module_ids(cls, config: Any) -> tuple[str, ...]:
            return ("even", "odd")

        @staticmethod
        def module_of_slot(slot: int, worker_index: int) -> str:
            return ("even", "odd")[slot % 2]

    return TwoModules({**SMALL, **settings})


def moved(algo: Any, before: dict[str, Any]) -> dict[str, bool]:
    """Return by module id whether any weight differs from those before."""
    return {
        module_id: any(not np.array_equal(w, before[module_id][n]) for n, w in weights.items())
        for module_id, weights in algo.get_weights().items()
    }


@pytest.mark.parametrize("base", [IMPALA, APPO])
def test_a_train_batch_may_have_no_fragment_of_a_module(base: type[Any]) -> None:
    with two_modules(base) as algo:
        [sample] = algo.env_runners.ready_samples(10.0)
        parts = sample.fetch()
        both, even = (replace(sample, rollouts=p) for p in (parts, {"even": parts["even"]}))
        before = algo.get_weights()
        algo.submit([even])
        assert list(algo._results()) == ["even"]
        assert moved(algo, before) == {"even": True, "odd": False}
        algo.submit([even, both])
        assert algo._results().keys() == {"even", "odd"}
        assert moved(algo, before) == {"even": True, "odd": True}


@pytest.mark.parametrize(
    ("base", "model"), [(IMPALA, {}), (APPO, {"use_gru": True, "lstm_cell_size": 8})]
)
def test_a_learner_may_have_no_fragment_of_a_module(base: type[Any], model: dict[str, Any]) -> None:
    """Of four fragments "odd" is in the first, or in none: one learner has nothing of it."""
    settings = {"model": {"fcnet_hiddens": [8], **model}, "num_epochs": 2, "minibatch_size": 64}
    with two_modules(base, **settings) as algo:
        parts = [algo.env_runners.ready_samples(10.0)[0].fetch() for _ in range(4)]
        fragments: list[dict[str, Rollout]] = [parts[0], *({"even": p["even"]} for p in parts[1:])]
        given, config, before = update_of(algo), algo.config, algo.policies

    def learned(ranks: Ranks, whole: list[dict[str, Rollout]]) -> dict[str, Tensor]:
        policies = {m: Policy(**policy.recipe) for m, policy in before.items()}
        for module_id, policy in policies.items():
            policy.set_weights(before[module_id].get_weights())
        connectors = {m: LearnerConnectors(None) for m in policies}
        worker = make_worker(config, policies, base.make_learner, no_parts, connectors, 7, ranks)
        update, *more = given
        own = shares(whole, ranks.size)[ranks.rank]
        results = update(worker, own, dict.fromkeys(policies, 1e-2), *more)
        assert results.keys() == whole[0].keys()
        return {
            m: learner.groups["all"].vector.detach().clone()
            for m, learner in worker.learners.items()
        }

    for whole in (fragments, fragments[1:]):
        alone = learned(ALONE, whole)
        for found in on_ranks(2, lambda ranks, whole=whole: learned(ranks, whole)):
            for module_id, vector in found.items():
                torch.testing.assert_close(vector, alone[module_id], rtol=0, atol=2e-5)


def update_of(algo: Any) -> tuple[Any, ...]:
    """An algorithm's update, and what it is given besides data and rates."""
    if not isinstance(algo, APPO):
        return impala_update, {m: algo.coefficients(m) for m in algo.policies}
    plans = {
        m: APPOPlan(algo.estimation(m), algo._appo_coefficients(m), 0.5) for m in algo.policies
    }
    return appo_update, plans


@pytest.mark.parametrize("base", [PPO, A2C])
def test_a_rollout_may_have_no_valid_row_of_a_module(
    base: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_modules(base) as algo:
        rollouts = algo.sample()
        rollouts["odd"] = rollouts["odd"].without_steps()
        monkeypatch.setattr(algo, "sample", lambda: rollouts)
        before = algo.get_weights()
        metrics = algo.training_step()
        assert {name.split("/")[1] for name in metrics} == {"even"}
        assert moved(algo, before) == {"even": True, "odd": False}


def test_a_share_without_slots_keeps_no_sequence() -> None:
    assert sequences_kept(torch.zeros(7, 0, dtype=torch.bool), 3).shape == (3, 0)
