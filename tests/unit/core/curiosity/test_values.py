"""Advantages of bonuses run on over the ends of episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainables.core.curiosity.part import endless_gae


def slow(
    bonuses: np.ndarray, values: np.ndarray, valid: np.ndarray, gamma: float, lambda_: float
) -> np.ndarray:
    """Each slot's steps as one episode that does not end, each advantage as a sum of its own."""
    advantages = np.zeros(bonuses.shape)
    for n in range(bonuses.shape[1]):
        steps = [t for t in range(len(bonuses)) if valid[t, n]]
        seen = [*(values[t, n] for t in steps), values[-1, n]]
        deltas = [bonuses[t, n] + gamma * seen[i + 1] - seen[i] for i, t in enumerate(steps)]
        for i, t in enumerate(steps):
            advantages[t, n] = sum(
                (gamma * lambda_) ** (j - i) * deltas[j] for j in range(i, len(steps))
            )
    return advantages


@pytest.mark.parametrize(("gamma", "lambda_"), [(0.99, 0.95), (0.9, 1.0), (0.8, 0.0), (0.0, 0.5)])
@pytest.mark.parametrize(("rows", "slots", "share"), [(20, 7, 0.2), (33, 4, 0.6), (1, 3, 0.5)])
def test_rows_that_reset_are_passed_over(
    rows: int, slots: int, share: float, gamma: float, lambda_: float
) -> None:
    rng = np.random.default_rng(rows)
    bonuses, values = rng.random((rows, slots)), rng.normal(size=(rows + 1, slots))
    valid = rng.random((rows, slots)) > share
    if rows > 1:
        valid[:3, 0] = [True, False, True]  # between steps
        valid[0, 1], valid[-1, 2] = False, False
        valid[:, 3] = False  # no step at all
    found = endless_gae(
        torch.from_numpy(bonuses),
        torch.from_numpy(values),
        torch.from_numpy(valid),
        gamma,
        lambda_,
    ).numpy()
    expected = slow(bonuses, values, valid, gamma, lambda_)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert not found[~valid].any()


def test_bonuses_and_values_of_rows_that_reset_count_nothing() -> None:
    bonuses, values = torch.tensor([[1.0], [7.0], [2.0]]), torch.tensor([[0.5], [9.0], [1.5], [3]])
    valid = torch.tensor([[True], [False], [True]])
    found = endless_gae(bonuses, values, valid, 0.5, 1.0).flatten().tolist()
    last = 2 + 0.5 * 3 - 1.5
    assert found == [1 + 0.5 * 1.5 - 0.5 + 0.5 * last, 0.0, last]
