"""The sum tree, against cumulative sums."""

import numpy as np
import pytest

from trainables.runtime.replay.priorities import SumTree

SIZES = (1, 2, 7, 8, 9, 63, 64, 65, 513, 1000)


def test_positions_fall_into_the_leaves_laid_end_to_end() -> None:
    for size in SIZES:
        rng = np.random.default_rng(size)
        # Small integers: every sum is exact, and so every boundary.
        values = rng.integers(0, 4, size).astype(float)
        values[rng.integers(size)] = 2.0
        tree = SumTree(size)
        tree.update(np.arange(size), values)
        assert tree.total == values.sum()
        positions = np.arange(0, tree.total, 0.5)
        expected = np.searchsorted(values.cumsum(), positions, side="right")
        np.testing.assert_array_equal(tree.sample(positions), expected)


def test_sums_stay_right_over_many_updates() -> None:
    for size in SIZES:
        rng = np.random.default_rng(size)
        tree, values = SumTree(size), np.zeros(size)
        for _ in range(50):
            ids = rng.integers(0, size, int(rng.integers(1, 20)))  # some twice
            new = rng.random(len(ids)) * 10.0 ** rng.integers(-8, 8)
            tree.update(ids, new)
            values[ids] = new
            np.testing.assert_array_equal(tree.leaves, values)
            np.testing.assert_allclose(tree.total, values.sum(), rtol=1e-12)
        tree.update(np.arange(size), 0.0)
        assert tree.total == 0  # nothing has drifted


def test_a_tree_is_determined_by_its_leaves_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    tree, other = SumTree(300), SumTree(300)
    for _ in range(100):
        tree.update(rng.integers(0, 200, 7), rng.random(7))
    other.update(np.arange(300), 5.0)
    other.set_leaves(tree.leaves[:200])
    assert other.total == tree.total
    for mine, its in zip(tree._levels, other._levels, strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_zero_leaves_are_never_drawn_whatever_the_rounding(scale: float) -> None:
    rng = np.random.default_rng(0)
    for size in (3, 64, 700):
        for _ in range(30):
            values = rng.random(size) * (rng.random(size) < 0.3) * 10.0 ** rng.integers(-9, 2, size)
            values[rng.integers(size)] = 0.1
            values *= scale / size
            tree = SumTree(size)
            tree.update(np.arange(size), values)
            ends = values.cumsum()
            near = [ends, np.nextafter(ends, 0), np.nextafter(ends, np.inf)]
            ends_of_all = [tree.total, np.nextafter(tree.total, 0), 0.0]
            positions = np.concatenate([*near, rng.random(500) * tree.total, ends_of_all])
            leaves = tree.sample(positions.clip(0, tree.total))
            assert (values[leaves] > 0).all()


def test_leaves_are_drawn_in_proportion() -> None:
    tree = SumTree(50)
    values = np.arange(50.0)
    tree.update(np.arange(50), values)
    positions = np.random.default_rng(0).random(100_000) * tree.total
    counts = np.bincount(tree.sample(positions), minlength=50)
    np.testing.assert_allclose(counts / 100_000, values / values.sum(), atol=3e-3)
