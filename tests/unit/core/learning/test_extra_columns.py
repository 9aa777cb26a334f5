"""Columns that a part adds to a rollout reach the loss, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import settings_of

from trainables.core.data.batch import Rollout
from trainables.core.learning.advantages import with_advantages
from trainables.core.learning.fragments import fragment_batch
from trainables.core.policy.policy import Policy
from trainables.registry import get_algorithm


def sampled(name: str, **more: Any) -> tuple[Policy, Rollout, Any]:
    with get_algorithm(name)(config=settings_of(name, "CartPole-v1", **more)) as algo:
        rollout = algo.sample()["default_policy"]
        return algo.get_policy(), rollout, algo.config


def with_twice_the_logp(rollout: Rollout) -> Rollout:
    pairs = np.stack([rollout.logp, 2 * rollout.logp], axis=-1)
    return replace(rollout, extra={"pairs": pairs})


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "max_seq_len": 4}])
def test_the_batch_of_advantages_has_them(model: dict[str, Any]) -> None:
    policy, rollout, config = sampled("PPO", model=model)
    plain = with_advantages(rollout, policy, config)
    batch = with_advantages(with_twice_the_logp(rollout), policy, config)
    assert batch.keys() - plain.keys() == {"extra/pairs"}
    logp = batch["logp"]
    torch.testing.assert_close(batch["extra/pairs"], torch.stack([logp, 2 * logp], dim=-1))
    for key, column in plain.items():
        assert torch.equal(column, batch[key]), key


def test_the_batch_of_fragments_has_them() -> None:
    policy, rollout, _ = sampled("IMPALA")
    plain = fragment_batch(rollout, policy)
    batch = fragment_batch(with_twice_the_logp(rollout), policy)
    assert batch.keys() - plain.keys() == {"extra/pairs"}
    assert torch.equal(batch["extra/pairs"][..., 1], 2 * batch["logp"])


def test_slots_and_rollouts_side_by_side_keep_them() -> None:
    policy, plain, _ = sampled("PPO")
    rollout = with_twice_the_logp(plain)
    pairs, num_slots = rollout.extra["pairs"], rollout.rewards.shape[1]
    part = rollout.slots(0, 1)
    assert np.array_equal(part.extra["pairs"], pairs[:, :1])
    both = Rollout.concatenate([part, rollout.slots(1, num_slots)])
    assert np.array_equal(both.extra["pairs"], pairs)
    assert np.array_equal(rollout.without_steps().extra["pairs"], pairs)
    layout = policy.observations.layout
    again = Rollout.from_state(rollout.to_state(layout), layout)
    assert np.array_equal(again.extra["pairs"], pairs)
    assert "extra" not in plain.to_state(layout)
    with pytest.raises(ValueError, match="other extra columns"):
        Rollout.concatenate([plain, rollout])
