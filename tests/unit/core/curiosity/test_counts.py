"""Counts of visited states: a bonus of one by the root of how often each was visited."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from thread_ranks import on_ranks
from torch import Tensor
from torch.nn.functional import one_hot

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.counts import Counts
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import ACTION_MASK, VECTOR, FeatureSpec, ImageSpec
from trainables.core.learning.ranks import ALONE, Ranks

IMAGE = ImageSpec((2, 2, 1), channels_first=False, scale=255.0)


def made(spec: FeatureSpec | int, **options: Any) -> Counts:
    given = FeatureSpec(spec) if isinstance(spec, int) else spec
    return Counts(given, ExplorationConfig.of({"type": "Counts", **options}))


def leading_to(rows: Tensor) -> Batch:
    return {"features": torch.full_like(rows, torch.nan), "next_features": rows}


def images(rows: Tensor) -> Batch:
    return {"next_features/screen": rows.to(torch.uint8)}


def expected(visits: Counter[Hashable], states: Iterable[Hashable]) -> list[float]:
    return [1 / math.sqrt(max(1, visits[state])) for state in states]


def normals(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 2, generator=generator) * torch.tensor([0.2, 30.0]) + 10


def test_discrete_states_are_what_they_are() -> None:
    counts, visits = made(8), Counter[Hashable]()
    every = leading_to(torch.eye(8))
    generator = torch.Generator().manual_seed(0)
    # The first experience has one state alone, which does not vary.
    for high, number in ((1, 5), (3, 40), (7, 200), (7, 0)):
        states = torch.randint(0, high, (number,), generator=generator)
        visits.update(states.tolist())
        counts.observe(tree_of(leading_to(one_hot(states, 8).float()), "next_features"), ALONE)
        np.testing.assert_allclose(counts.bonus(every), expected(visits, range(8)), rtol=1e-6)
        assert counts.num_states == len(visits)
    assert len(visits) == 7


@pytest.mark.parametrize("cells", [0.5, 2.0, 7.0])
def test_cells_are_parts_of_the_first_experiences_deviations(cells: float) -> None:
    counts, visits = made(2, cells_per_deviation=cells, table_size=2**22), Counter[Hashable]()
    first = normals(300, 0)
    mean, std = first.double().numpy().mean(0), first.double().numpy().std(0, ddof=1)
    for rows in (first, 3 * normals(200, 1), normals(100, 2)):
        states = [
            tuple(math.floor(x) for x in cells * ((row - mean) / std))
            for row in rows.double().numpy()
        ]
        visits.update(states)
        counts.observe(tree_of(leading_to(rows), "next_features"), ALONE)
        np.testing.assert_allclose(
            counts.bonus(leading_to(rows)), expected(visits, states), rtol=1e-6
        )
    assert counts.num_states == len(visits) > 10
    np.testing.assert_allclose(counts.statistics.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(counts.statistics.std, std, rtol=1e-9)


def test_numbers_of_one_cell_are_one_state() -> None:
    counts = made(1)  # 2 cells per deviation
    first = torch.tensor([[-1.0], [0.0], [1.0]])  # mean 0, deviation 1
    counts.observe(tree_of(leading_to(first), "next_features"), ALONE)
    counts.observe(
        tree_of(leading_to(torch.tensor([[2.01], [2.49], [2.99], [-0.01]])), "next_features"), ALONE
    )
    found = counts.bonus(leading_to(torch.tensor([[2.2], [2.7], [-0.4], [0.1], [9.0]])))
    np.testing.assert_allclose(found, [2**-0.5, 1, 1, 1, 1], rtol=1e-6)
    assert counts.num_states == 6


def test_images_that_differ_by_one_byte_are_other_states() -> None:
    spec = FeatureSpec(0, {"screen": IMAGE})
    counts = made(spec, table_size=2**22)
    rows = torch.zeros(4, 256, *IMAGE.shape)
    for pixel in range(4):
        rows[pixel, :, pixel // 2, pixel % 2, 0] = torch.arange(256.0)
    every = images(rows.flatten(0, 1))
    counts.observe(tree_of(every, "next_features"), ALONE)
    states = [tuple(image.flatten().tolist()) for image in rows.flatten(0, 1)]
    visits = Counter[Hashable](states)
    np.testing.assert_allclose(counts.bonus(every), expected(visits, states), rtol=1e-6)
    assert counts.num_states == len(visits) == 4 * 255 + 1


def test_images_of_floats_are_rounded_to_bytes() -> None:
    counts = made(FeatureSpec(0, {"screen": ImageSpec((1, 1, 1), False, scale=1.0)}))
    generator = torch.Generator().manual_seed(3)
    pixels = torch.randint(0, 256, (200, 1, 1, 1), generator=generator)
    noise = 0.9 * (torch.rand(pixels.shape, generator=generator) - 0.5)
    batch = {"next_features/screen": (pixels + noise) / 255}
    counts.observe(tree_of(batch, "next_features"), ALONE)
    visits = Counter[Hashable](pixels.flatten().tolist())
    bonuses = expected(visits, pixels.flatten().tolist())
    np.testing.assert_allclose(counts.bonus(batch), bonuses, rtol=1e-6)


def test_masks_are_no_part_of_a_state() -> None:
    counts = made(FeatureSpec(2, {"screen": IMAGE}, num_mask=3))

    def batch(mask: float, number: float, pixel: float) -> Batch:
        return {
            f"next_features/{VECTOR}": torch.tensor([[0.0, number]]),
            f"next_features/{ACTION_MASK}": torch.full((1, 3), mask).bool(),
            "next_features/screen": torch.full((1, *IMAGE.shape), pixel).to(torch.uint8),
        }

    counts.observe(tree_of(batch(0, 0, 0), "next_features"), ALONE)
    counts.observe(tree_of(batch(1, 0, 0), "next_features"), ALONE)
    np.testing.assert_allclose(counts.bonus(batch(0, 0, 0)), [2**-0.5], rtol=1e-6)
    assert counts.num_states == 1
    counts.observe(tree_of(batch(0, 3, 0), "next_features"), ALONE)
    counts.observe(tree_of(batch(0, 0, 3), "next_features"), ALONE)
    assert counts.num_states == 3


@pytest.mark.parametrize("num_bits", [1, 8])
def test_states_on_the_same_side_of_all_planes_are_one(num_bits: int) -> None:
    counts, visits = made(6, hash_bits=num_bits, table_size=2**22), Counter[Hashable]()
    generator = torch.Generator().manual_seed(5)
    planes = counts.planes.double().numpy()
    assert planes.shape == (6, num_bits)
    first = 3 * torch.randn(200, 6, generator=generator) + 50
    mean, std = first.double().numpy().mean(0), first.double().numpy().std(0, ddof=1)
    for rows in (first, 3 * torch.randn(300, 6, generator=generator) + 52):
        states = [
            tuple(((row - mean) / std @ planes[:, k]) > 0 for k in range(num_bits))
            for row in rows.double().numpy()
        ]
        visits.update(states)
        counts.observe(tree_of(leading_to(rows), "next_features"), ALONE)
        np.testing.assert_allclose(
            counts.bonus(leading_to(rows)), expected(visits, states), rtol=1e-6
        )
    assert counts.num_states == len(visits)


def test_as_many_planes_as_there_may_be_tell_states_apart() -> None:
    counts = made(6, hash_bits=62)
    rows = torch.randn(500, 6, generator=torch.Generator().manual_seed(6))
    counts.observe(tree_of(leading_to(rows), "next_features"), ALONE)
    assert counts.num_states >= 495
    # A vector and a longer one of its direction are the same.
    counts = made(6, hash_bits=62)
    both = torch.cat([rows, -rows])  # mean 0
    counts.observe(tree_of(leading_to(both), "next_features"), ALONE)
    np.testing.assert_allclose(
        counts.bonus(leading_to(3 * both)), counts.bonus(leading_to(both)), rtol=1e-6
    )


def test_ranks_count_together() -> None:
    states = torch.randint(0, 6, (90,), generator=torch.Generator().manual_seed(7))
    rows, visits = one_hot(states, 6).float(), Counter[Hashable](states.tolist())

    def table_on(ranks: Ranks) -> Tensor:
        counts = made(6)
        for own in ((rows[:0], rows[:20]), (rows[20:30], rows[30:90])):
            counts.observe(tree_of(leading_to(own[ranks.rank]), "next_features"), ranks)
        bonuses = counts.bonus(leading_to(torch.eye(6)))
        np.testing.assert_allclose(bonuses, expected(visits, range(6)), rtol=1e-6)
        return counts.table

    alone = made(6)
    alone.observe(tree_of(leading_to(rows), "next_features"), ALONE)
    first, second = on_ranks(2, table_on)
    assert torch.equal(first, second) and int(first.sum()) == 90
    assert sorted(first[first > 0].tolist()) == sorted(visits.values())
    assert sorted(alone.table[alone.table > 0].tolist()) == sorted(visits.values())


def test_few_states_share_a_counter() -> None:
    """Of 5,000 in 2^18 counters, 48 would at random."""
    counts = made(2, cells_per_deviation=100.0)
    grid = torch.cartesian_prod(torch.arange(50.0), torch.arange(100.0))
    counts.observe(tree_of(leading_to(grid), "next_features"), ALONE)
    assert counts.num_states >= 4_900
    counts = made(FeatureSpec(0, {"screen": IMAGE}))
    drawn = torch.randint(0, 256, (5_000, 4), generator=torch.Generator().manual_seed(8))
    counts.observe(tree_of(images(drawn.reshape(-1, 2, 2, 1)), "next_features"), ALONE)
    assert counts.num_states >= 4_900


def test_a_copy_goes_on_counting() -> None:
    counts, copy = made(2), made(2)
    counts.observe(tree_of(leading_to(normals(50, 0)), "next_features"), ALONE)
    copy.load_state_dict(counts.state_dict())
    rows = leading_to(5 * normals(50, 1))
    for one in (counts, copy):
        one.observe(tree_of(rows, "next_features"), ALONE)
    torch.testing.assert_close(copy.bonus(rows), counts.bonus(rows), rtol=0, atol=0)
    assert torch.equal(copy.table, counts.table)


def test_planes_tell_images_apart_by_where_they_differ_from_the_mean() -> None:
    """A sprite at 100 places: without the mean taken off, all images lie to one side."""
    space = ImageSpec((12, 12, 1), channels_first=False, scale=255.0)
    counts = made(FeatureSpec(0, {"screen": space}), hash_bits=32)
    rows = torch.zeros(100, 12, 12, 1)
    for place in range(100):
        rows[place, place // 10 : place // 10 + 2, place % 10 : place % 10 + 2] = 255
    counts.observe(tree_of(images(rows), "next_features"), ALONE)
    assert counts.num_states >= 95
