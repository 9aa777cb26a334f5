"""A module that has nothing in a batch is left out of its update, and the others learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from trainables import A2C, APPO, IMPALA, PPO
from trainables.core.learning.minibatches import sequences_kept

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
