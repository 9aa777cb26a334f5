"""Networks of an intrinsic reward see observations alone, in a scale of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from thread_ranks import on_ranks

from trainables.core.curiosity.seen import Seen
from trainables.core.data.features import (
    ACTION_MASK,
    PREV_ACTION,
    PREV_REWARD,
    VECTOR,
    Features,
    FeatureSpec,
    ImageSpec,
)
from trainables.core.learning.ranks import ALONE, Ranks

IMAGE = ImageSpec((3, 2, 1), channels_first=False, scale=255.0)
ALL = FeatureSpec(2, {"screen": IMAGE}, {"x": (0, 2)}, 3, 4, True)


def features_of(count: int, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        VECTOR: torch.randn(count, 2, generator=generator) * torch.tensor([0.5, 40.0]) + 7,
        "screen": torch.randint(
            0, 256, (count, *IMAGE.shape), generator=generator, dtype=torch.uint8
        ),
        ACTION_MASK: torch.ones(count, 3, dtype=torch.bool),
        PREV_ACTION: torch.zeros(count, 4),
        PREV_REWARD: torch.zeros(count, 1),
    }


def slow(rows: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """By the mean and deviation of all rows, pixel by pixel."""
    found = np.empty(seen.shape)
    for place in np.ndindex(*rows.shape[1:]):
        column = rows[(slice(None), *place)].astype(np.float64)
        numbers = (seen[(slice(None), *place)] - column.mean()) / column.std(ddof=1)
        found[(slice(None), *place)] = [min(5.0, max(-5.0, number)) for number in numbers]
    return found


@pytest.mark.parametrize("normalized", [False, True])
def test_masks_and_what_a_memory_sees_are_left_out(normalized: bool) -> None:
    seen, features = Seen(ALL, normalized), features_of(5)
    given = seen(features)
    assert set(given) == set(seen.parts(features)) == {VECTOR, "screen"}
    assert (seen.spec.num_features, set(seen.spec.images)) == (2, {"screen"})
    assert (seen.spec.num_mask, seen.spec.num_prev_action) == (0, 0)
    assert not seen.spec.has_prev_reward


def test_a_vector_beside_a_mask_alone_is_a_plain_one() -> None:
    features = {VECTOR: torch.ones(4, 2), ACTION_MASK: torch.ones(4, 3, dtype=torch.bool)}
    seen = Seen(FeatureSpec(2, num_mask=3), normalized=False)
    assert seen.spec.is_vector
    torch.testing.assert_close(seen(features), features[VECTOR])


def test_numbers_and_pixels_are_normalised_and_clipped_at_5() -> None:
    seen, rows, others = Seen(ALL, normalized=True), features_of(400), features_of(30, seed=1)
    others[VECTOR][:3] += torch.tensor([1e3, -1e5])
    for start in (0, 100, 250):
        end = {0: 100, 100: 250, 250: 400}[start]
        seen.observe({name: part[start:end] for name, part in rows.items()}, ALONE)
    given = seen(others)
    for name in (VECTOR, "screen"):
        expected = slow(rows[name].numpy(), others[name].numpy())
        assert given[name].dtype == torch.float32
        np.testing.assert_allclose(given[name], expected, rtol=1e-5, atol=1e-5)
    assert given[VECTOR][:3].tolist() == [[5.0, -5.0]] * 3
    # They are in scale already, so no network divides them by 255.
    assert seen.spec.images["screen"].scale == 1


def test_leading_dimensions_stay() -> None:
    seen, rows = Seen(ALL, normalized=True), features_of(12)
    seen.observe(rows, ALONE)
    flat = seen(rows)
    folded = seen({name: part.unflatten(0, (3, 4)) for name, part in rows.items()})
    for name, part in flat.items():
        torch.testing.assert_close(folded[name].flatten(0, 1), part)


def test_without_normalisation_everything_stays_as_it_is() -> None:
    seen, features = Seen(ALL, normalized=False), features_of(50)
    seen.observe(features, ALONE)
    given = seen(features)
    for name in (VECTOR, "screen"):
        assert given[name].dtype == features[name].dtype
        torch.testing.assert_close(given[name], features[name], rtol=0, atol=0)
    assert seen.spec.images["screen"].scale == 255
    assert not seen.state_dict()


def test_what_is_given_is_not_changed() -> None:
    seen, features = Seen(FeatureSpec(2), normalized=True), torch.full((3, 2), 100.0)
    seen.observe(torch.randn(50, 2), ALONE)
    assert seen(features).tolist() == [[5.0, 5.0]] * 3
    assert features.tolist() == [[100.0, 100.0]] * 3


def test_ranks_see_in_the_same_scale() -> None:
    rows, others = features_of(60), features_of(9, seed=1)

    def given_on(ranks: Ranks) -> Features:
        seen, own = Seen(ALL, normalized=True), slice(0, 20) if ranks.rank else slice(20, 60)
        seen.observe({name: part[own] for name, part in rows.items()}, ranks)
        given: Features = seen(others)
        return given

    alone = Seen(ALL, normalized=True)
    alone.observe(rows, ALONE)
    for given in on_ranks(2, given_on):
        torch.testing.assert_close(given, alone(others))
