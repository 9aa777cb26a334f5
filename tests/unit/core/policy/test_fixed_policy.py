"""Policies written by hand: random ones draw what is allowed, and one's own is made and checked."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector.utils import batch_space
from refusals import Golden, refusals

from trainables import FixedPolicy, PolicySpec
from trainables.core.errors import ConfigError
from trainables.core.policy.fixed_policy import RandomPolicy, make_fixed_policy

SIGHT = Dict({"at": Box(-1, 1, (2,), np.float32), "place": Discrete(4)})


def sights(count: int) -> dict[str, np.ndarray]:
    return {"at": np.zeros((count, 2), np.float32), "place": np.zeros(count, np.int64)}


def draws(space: gym.Space, count: int, masks: np.ndarray | None = None, seed: int = 0) -> Any:
    return RandomPolicy(SIGHT, space).compute_actions(
        sights(count), np.random.default_rng(seed), masks
    )


@pytest.mark.parametrize(
    "space",
    [
        Discrete(3, start=5),
        MultiDiscrete([2, 3], start=[1, -1]),
        MultiDiscrete([[2, 3], [4, 5]]),
        MultiBinary(3),
        MultiBinary([2, 2]),
        Box(-2, 3, (2, 2), np.float32),
        Box(0, 3, (2,), np.int8),
        Tuple((Discrete(2), Dict({"b": Box(-1, 1, (1,), np.float64), "a": MultiBinary(2)}))),
    ],
    ids=str,
)
def test_actions_are_a_batch_of_the_space(space: gym.Space) -> None:
    batch = draws(space, 7)
    assert batch_space(space, 7).contains(batch)


def test_every_action_is_as_likely() -> None:
    counts = np.bincount(draws(Discrete(4), 8000))
    assert counts.sum() == 8000 and np.all(np.abs(counts - 2000) < 200)
    whole = np.bincount(draws(Box(0, 2, (1,), np.int64), 6000).ravel(), minlength=3)
    assert np.all(np.abs(whole - 2000) < 200)  # up to the last one
    real = draws(Box(-1, 3, (1,), np.float64), 8000)
    assert abs(real.mean() - 1) < 0.05 and abs(real.std() - 4 / np.sqrt(12)) < 0.05


def test_the_same_stream_gives_the_same_actions() -> None:
    assert np.array_equal(draws(Discrete(9), 50, seed=3), draws(Discrete(9), 50, seed=3))
    assert not np.array_equal(draws(Discrete(9), 50, seed=3), draws(Discrete(9), 50, seed=4))


def test_only_what_a_mask_allows_is_drawn() -> None:
    masks = np.zeros((6000, 4), np.int8)
    masks[:, [1, 3]] = 1
    counts = np.bincount(draws(Discrete(4, start=2), 6000, masks) - 2, minlength=4)
    assert counts[0] == counts[2] == 0 and np.all(np.abs(counts[[1, 3]] - 3000) < 250)


def test_masks_of_several_parts_lie_side_by_side() -> None:
    space = Tuple((MultiDiscrete([2, 3]), Box(0, 1, (1,), np.float32), MultiBinary(2)))
    mask = [0, 1, 1, 0, 0, 1, 0, 0, 1]  # 1; 0; bit 0 is 0; bit 1 is 1
    drawn, _, bits = draws(space, 20, np.tile(np.array(mask, bool), (20, 1)))
    assert (drawn == [1, 0]).all() and (bits == [0, 1]).all()


def test_where_a_mask_allows_nothing_all_are_allowed() -> None:
    assert set(draws(Discrete(3), 100, np.zeros((100, 3), bool))) == {0, 1, 2}


@pytest.mark.parametrize(("space", "shape"), [(Discrete(3), (5, 2)), (Box(0, 1), (5, 3))])
def test_masks_of_another_size_are_refused(space: gym.Space, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"masks of shape \(5, .\) do not fit 5 agents"):
        draws(space, 5, np.ones(shape, bool))


def test_unbounded_actions_cannot_be_random() -> None:
    with pytest.raises(ConfigError, match="policies: 'red': a random policy needs bounds"):
        make_fixed_policy("red", PolicySpec("random", SIGHT, Box(-np.inf, 1, (1,))))


class Constant(FixedPolicy):
    """Does always the same."""

    def compute_actions(
        self, observations: Any, rng: np.random.Generator, masks: np.ndarray | None = None
    ) -> Any:
        return np.full(len(observations["place"]), self.config["action"])


class Nothing:
    """Has no actions."""


@pytest.mark.parametrize("given", [Constant, f"{Constant.__module__}:Constant"])
def test_a_policy_of_ones_own_is_made_with_its_config(given: Any) -> None:
    policy = make_fixed_policy("red", PolicySpec(given, SIGHT, Discrete(3), {"action": 2}))
    assert policy.action_space == Discrete(3) and policy.observation_space == SIGHT
    assert policy.compute_actions(sights(3), np.random.default_rng(0)).tolist() == [2, 2, 2]


def test_random_is_a_name() -> None:
    made = make_fixed_policy("red", PolicySpec("random", SIGHT, Discrete(3)))
    assert isinstance(made, RandomPolicy)


def test_what_is_no_policy_is_refused(golden: Golden) -> None:
    cases = [f"{Nothing.__module__}:Nothing", "math:pi", "math:nothing"]
    golden(
        "fixed_policy/what_is_no_policy_is_refused",
        refusals(
            lambda given: make_fixed_policy("red", PolicySpec(given, SIGHT, Discrete(3))), cases
        ),
    )
