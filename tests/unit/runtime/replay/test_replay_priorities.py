"""Prioritised replay: frequencies, importance weights, new rows, stale rows."""

import numpy as np
import pytest
import torch
from replay_cases import Stream, check_windows, fill, make_buffer

from trainables.runtime.replay.buffer import ReplayBuffer

PRIORITIZED = "PrioritizedReplayBuffer"
GAMMA = 0.9


def prioritized(seed: int = 0, **settings: float) -> tuple[ReplayBuffer, np.ndarray]:
    """A buffer of some rows, and the ids of the valid ones."""
    buffer, _ = fill(seed, 4, 20, type=PRIORITIZED, **settings)
    return buffer, buffer.sample(64, 200, gamma=GAMMA)["ids"].unique().numpy()


def frequencies(buffer: ReplayBuffer, ids: np.ndarray, batch: int = 50) -> np.ndarray:
    drawn = buffer.sample(batch, 4000, gamma=GAMMA)["ids"].numpy()
    return np.bincount(drawn, minlength=ids.max() + 1)[ids] / len(drawn)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies_are_proportional_to_priorities_to_the_power_alpha(alpha: float) -> None:
    buffer, ids = prioritized(alpha=alpha, eps=0.01)
    assert len(ids) == buffer.num_steps
    priorities = np.random.default_rng(0).exponential(size=len(ids))
    buffer.update(torch.from_numpy(ids), {"priorities": torch.from_numpy(priorities)})
    expected = (priorities + 0.01) ** alpha
    expected /= expected.sum()
    np.testing.assert_allclose(frequencies(buffer, ids), expected, atol=2e-3)


def test_batches_are_stratified() -> None:
    """With as many rows as equal priorities, each batch has every row once."""
    stream = Stream(1, np.random.default_rng(0), max_length=100)
    stream.length[:] = 100
    buffer = make_buffer(capacity=33, type=PRIORITIZED)
    buffer.add(stream.rollout(32))
    for batch in buffer.sample(32, 5, gamma=GAMMA)["ids"].view(5, 32):
        assert batch.sort().values.tolist() == list(range(32))


def test_weights_undo_the_bias_at_beta_one() -> None:
    buffer, ids = prioritized(alpha=0.6)
    values = np.random.default_rng(1).normal(size=ids.max() + 1)
    priorities = torch.from_numpy(np.abs(values[ids])) + 0.05  # related to the values
    buffer.update(torch.from_numpy(ids), {"priorities": priorities})
    uniform = np.square(values[ids]).mean()
    means = {}
    for beta in (0.0, 1.0):
        batch = buffer.sample(200_000, gamma=GAMMA, beta=beta)
        x, w = np.square(values[batch["ids"].numpy()]), batch["weights"].double().numpy()
        means[beta] = (w * x).sum() / w.sum()
    np.testing.assert_allclose(means[1.0], uniform, rtol=0.02)
    assert means[0.0] > 1.3 * uniform


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_those_of_the_paper(beta: float) -> None:
    buffer, ids = prioritized(alpha=0.5, eps=0.1)
    priorities = np.random.default_rng(0).exponential(size=len(ids))
    buffer.update(torch.from_numpy(ids), {"priorities": torch.from_numpy(priorities)})
    batch = buffer.sample(16, 5, gamma=GAMMA, beta=beta)
    leaf = np.zeros(ids.max() + 1)
    leaf[ids] = (priorities + 0.1) ** 0.5
    probability = leaf / leaf.sum()
    drawn = batch["ids"].view(5, 16).numpy()
    expected = (len(ids) * probability[drawn]) ** -beta
    expected /= expected.max(axis=1, keepdims=True)  # in each batch
    np.testing.assert_allclose(batch["weights"].view(5, 16), expected, rtol=1e-5)


def test_new_rows_get_the_largest_priority_so_far() -> None:
    stream = Stream(1, np.random.default_rng(0), max_length=100)
    stream.length[:] = 100
    buffer = make_buffer(capacity=60, type=PRIORITIZED, alpha=1.0, eps=0.5)
    leaves = buffer._priorities.leaves
    buffer.add(stream.rollout(5))
    np.testing.assert_allclose(leaves[:6], [1.5] * 5 + [0])
    buffer.update(torch.tensor([1, 2]), {"priorities": torch.tensor([7.0, 0.25])})
    buffer.update(torch.tensor([1]), {"priorities": torch.tensor([2.0])})
    buffer.add(stream.rollout(4))  # the largest is still 7; the old sentinel's row is now valid
    np.testing.assert_allclose(leaves[:10], [1.5, 2.5, 0.75, 1.5, 1.5] + [7.5] * 4 + [0])


def test_rows_that_are_not_valid_are_never_drawn_nor_updated() -> None:
    buffer, ids = prioritized()
    others = np.setdiff1d(np.arange(80), ids)
    assert len(others)
    both = torch.arange(80)
    buffer.update(both, {"priorities": torch.where(torch.isin(both, torch.tensor(others)), 1e6, 1)})
    assert not buffer._priorities.leaves[others].any()
    assert not np.isin(buffer.sample(2000, gamma=GAMMA)["ids"].numpy(), others).any()
    stream = Stream(4, np.random.default_rng(0))
    stream.rollout(1)
    buffer.add(stream.rollout(10))
    assert buffer._priorities.leaves.max() < 2  # a row that is gone sets no maximum


@pytest.mark.parametrize("n_step", [1, 3, (2, 5)])
def test_windows_of_prioritised_rows(n_step: int | tuple[int, int]) -> None:
    for seed in range(5):
        check_windows(*fill(seed, 3, 17, type=PRIORITIZED), n_step=n_step)


def test_priorities_that_are_no_priorities_are_refused() -> None:
    buffer, ids = prioritized()
    before = buffer._priorities.leaves.copy()
    for bad in (float("nan"), float("inf"), -1.0):
        with pytest.raises(ValueError, match="finite and >= 0"):
            buffer.update(torch.from_numpy(ids[:3]), {"priorities": torch.tensor([1.0, bad, 1.0])})
        np.testing.assert_array_equal(buffer._priorities.leaves, before)
