"""Running statistics are those of all rows at once, however these came."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from every_row import check_rows
from thread_ranks import on_ranks
from torch import Tensor

from trainables.core.curiosity.moments import RunningSize, RunningStatistics
from trainables.core.learning.ranks import ALONE, Ranks

PORTIONS = [[700], [1] * 700, [0, 300, 0, 399, 1], [256, 256, 188], [1, 699]]


def rows_of(offset: float, shape: tuple[int, ...] = (3,), seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.logspace(-1, 2, int(np.prod(shape))).reshape(shape)
    return torch.randn(700, *shape, generator=generator) * scales + offset


def told(*portions: Tensor, ranks: Ranks = ALONE) -> RunningStatistics:
    statistics = RunningStatistics(portions[0].shape[1:])
    for portion in portions:
        statistics.update(portion, ranks)
    return statistics


def check(statistics: RunningStatistics, rows: Tensor) -> None:
    whole = rows.numpy().astype(np.float64)
    assert statistics.count == len(whole)
    np.testing.assert_allclose(statistics.mean, whole.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(statistics.std, whole.std(0, ddof=1), rtol=1e-8)


def test_portions_do_not_matter() -> None:
    def check_row(portions: list[int], offset: float) -> None:
        rows = rows_of(offset)
        check(told(*rows.split(portions)), rows)

    check_rows(check_row, itertools.product(PORTIONS, [0.0, -3.0, 1e6]))


def test_bytes_of_images_are_numbers() -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(0, 256, (300, 2, 2, 1), generator=generator, dtype=torch.uint8)
    check(told(*rows.split(70)), rows)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ranks_have_the_statistics_of_all(offset: float) -> None:
    rows = rows_of(offset, seed=2)
    # Another number on each, and nothing on one of them once.
    of_rank = [[rows[:10], rows[10:10], rows[10:400]], [rows[400:401], rows[401:650], rows[650:]]]
    found = on_ranks(2, lambda ranks: told(*of_rank[ranks.rank], ranks=ranks))
    for statistics in found:
        check(statistics, rows)
    torch.testing.assert_close(found[0].state_dict(), found[1].state_dict(), rtol=0, atol=0)


def test_rows_are_seen_by_mean_and_deviation() -> None:
    rows = rows_of(5.0)
    whole = rows.numpy().astype(np.float64)
    seen = told(rows).normalized(rows[:20].reshape(4, 5, 3))
    expected = (whole[:20] - whole.mean(0)) / whole.std(0, ddof=1)
    assert seen.dtype == torch.float32
    np.testing.assert_allclose(seen.reshape(20, 3), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6, -7.3])
def test_what_does_not_vary_has_the_deviation_1(constant: float) -> None:
    rows = torch.full((500, 2), constant)
    statistics = told(*rows.split(33))
    assert statistics.std.tolist() == [1.0, 1.0]
    torch.testing.assert_close(statistics.normalized(rows), torch.zeros(500, 2))
    torch.testing.assert_close(statistics.normalized(rows + 2), torch.full((500, 2), 2.0))


def test_nothing_and_one_row_have_the_deviation_1() -> None:
    statistics = told(torch.zeros(0, 2))
    assert statistics.count == 0 and statistics.std.tolist() == [1.0, 1.0]
    statistics.update(torch.tensor([[3.0, 4.0]]), ALONE)
    assert statistics.mean.tolist() == [3.0, 4.0] and statistics.std.tolist() == [1.0, 1.0]


def test_size_is_the_root_mean_square() -> None:
    numbers = rows_of(2.0, ())
    expected = np.sqrt(np.mean(numbers.numpy().astype(np.float64) ** 2))

    def size_on(ranks: Ranks) -> float:
        size = RunningSize()
        for portion in numbers[ranks.rank :: ranks.size].split([0, 1, 300, 49]):
            size.update(portion, ranks)
        return float(size.size)

    alone = RunningSize()
    for portion in numbers.split([0, 1, 600, 99]):
        alone.update(portion, ALONE)
    np.testing.assert_allclose(float(alone.size), expected, rtol=1e-6)
    np.testing.assert_allclose(on_ranks(2, size_on), [expected] * 2, rtol=1e-6)


def test_the_size_of_nothing_and_of_zeros_is_1() -> None:
    size = RunningSize()
    assert size.size == 1
    size.update(torch.zeros(5), ALONE)
    assert size.size == 1
    size.update(torch.full((5,), 1e-3), ALONE)
    np.testing.assert_allclose(float(size.size), 1e-3 / np.sqrt(2), rtol=1e-6)
