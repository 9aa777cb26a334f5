"""Spaces: JSON and back, leaves, and what fits them."""

from __future__ import annotations

import json
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from every_row import check_rows
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import Golden, refusals
from space_strategies import nested_spaces

from trainables.core.data.space_json import space_from_json, space_to_json
from trainables.core.data.spaces import check_observation, leaf_keys, leaf_spaces, space_mismatch
from trainables.core.errors import ConfigError

Box, Dict, Tuple = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Tuple
Discrete, MultiDiscrete = gym.spaces.Discrete, gym.spaces.MultiDiscrete
MultiBinary = gym.spaces.MultiBinary

NESTED = Dict(
    [
        ("z", Box(0, 255, (4, 4, 3), np.uint8)),
        ("a", Tuple([Discrete(3, start=-1), Dict(bits=MultiBinary(2))])),
    ]
)
GRAPH = gym.spaces.Graph(Box(0, 1), None)
SEQUENCE = gym.spaces.Sequence(Discrete(2))
ONE_OF = gym.spaces.OneOf([Discrete(2), Discrete(3)])
REFUSED = [gym.spaces.Text(5), GRAPH, SEQUENCE, ONE_OF]


def keys_of(space: gym.Space) -> list[Any]:
    return list(zip(leaf_keys(space).values(), leaf_spaces(space).values(), strict=True))


@given(nested_spaces())
@settings(max_examples=150, deadline=None)
def test_json_round_trip(space: gym.Space) -> None:
    text = json.dumps(space_to_json(space), allow_nan=False)  # strict JSON
    result = space_from_json(json.loads(text))
    assert result == space
    assert keys_of(result) == keys_of(space)  # in the same order
    for (_, mine), (_, theirs) in zip(keys_of(result), keys_of(space), strict=True):
        assert mine.dtype == theirs.dtype
        if isinstance(mine, Box):
            assert np.array_equal(mine.low, theirs.low) and np.array_equal(mine.high, theirs.high)


def test_json_of_rare_spaces() -> None:
    def check(space: gym.Space) -> None:
        result = space_from_json(json.loads(json.dumps(space_to_json(space))))
        assert result == space and result.dtype == space.dtype

    rows = [
        Box(0, 1, (3,), np.bool_),
        Box(np.zeros(0, np.float32), np.zeros(0, np.float32)),
        Box(-np.inf, np.inf, (2,), np.float16),
        Box(0, 2**63, (2,), np.uint64),
        Box(-128, 127, (), np.int8),
        Discrete(2, dtype=np.int8),
        MultiBinary(3),
        MultiBinary([3]),
        Dict([(1, Discrete(2)), ("1", Discrete(3))]),
        Dict(),
        Tuple([]),
        MultiDiscrete([11] * 20),  # 10^21 combinations of 220 choices
    ]
    check_rows(check, rows)


def test_a_discrete_space_of_an_older_file_has_no_dtype() -> None:
    assert space_from_json({"type": "Discrete", "n": 3, "start": 1}) == Discrete(3, start=1)


def test_leaves_are_in_the_spaces_order() -> None:
    assert list(leaf_spaces(NESTED)) == ["z", "a/0", "a/1/bits"]
    assert leaf_spaces(NESTED)["a/1/bits"] == MultiBinary(2)
    assert leaf_keys(NESTED)["a/1/bits"] == ("a", 1, "bits")
    assert leaf_spaces(Discrete(2)) == {"@obs": Discrete(2)}
    assert leaf_keys(Discrete(2)) == {"@obs": ()}


@pytest.mark.parametrize("space", REFUSED)
def test_refused_leaves_are_named_with_their_path(space: gym.Space) -> None:
    name = type(space).__name__
    for call in (leaf_spaces, space_to_json):
        with pytest.raises(ConfigError, match=f"{name}.*not supported; supported: Box, Discrete"):
            call(space)
    nested = Dict(ok=Discrete(2), x=Tuple([Discrete(2), space]))
    with pytest.raises(ConfigError, match=rf"action space {name}.* at 'x/1' is not supported"):
        leaf_spaces(nested, "action space")
    with pytest.raises(ConfigError, match=name):
        space_to_json(nested)


def test_refused_structures(golden: Golden) -> None:
    cases = [
        Dict(),
        Tuple([Dict()]),
        Dict({"@a": Discrete(2)}),
        Dict({"a/b": Discrete(2), "a": Dict(b=Discrete(2))}),
        Dict([(1, Discrete(2)), ("1", Discrete(3))]),
    ]
    golden("spaces/refused_structures", refusals(lambda space: leaf_spaces(space), cases))


def test_mismatch() -> None:
    def check(mine: gym.Space, theirs: gym.Space, message: str | None) -> None:
        found = space_mismatch(mine, theirs)
        if message is None:
            assert found is None
        else:
            assert found is not None
            with pytest.raises(ConfigError, match=message):
                raise ConfigError(found)

    rows = [
        (Box(0, 1, (2,)), Box(-5, np.inf, (2,), np.float64), None),
        (Box(0, 1, (2,)), Box(0, 1, (3,)), r"shape \(2,\) against \(3,\)"),
        (Box(0, 1, (2,)), Box(0, 1, (2,), np.uint8), "Box of floats against Box of integers"),
        (Box(0, 1, (2,)), Discrete(2), "Box of floats against Discrete"),
        (Discrete(2, dtype=np.int32), Discrete(2), None),
        (Discrete(2), Discrete(3), "n 2 against 3"),
        (Discrete(2), Discrete(2, start=1), "start 0 against 1"),
        (MultiDiscrete([2, 3]), MultiDiscrete([2, 4]), r"nvec \[2, 3\] against \[2, 4\]"),
        (MultiDiscrete([2]), MultiDiscrete([2], start=[1]), r"start \[0\] against \[1\]"),
        (MultiBinary(3), MultiBinary([3]), None),
        (MultiBinary(3), MultiBinary(2), "shape"),
        (Dict(a=Discrete(2)), Dict(b=Discrete(2)), r"keys \['a'\] against \['b'\]"),
        (Tuple([Discrete(2)]), Tuple([Discrete(2)] * 2), "1 parts against 2"),
        (Dict(a=Tuple([Discrete(2)])), Dict(a=Tuple([Discrete(3)])), "n 2 against 3 at 'a/0'"),
        (
            Dict([("a", Discrete(2)), ("b", MultiBinary(1))]),
            Dict([("b", MultiBinary(1)), ("a", Discrete(2))]),
            None,
        ),
        (Discrete(2), SEQUENCE, "Discrete against Sequence"),
    ]
    check_rows(check, rows)


@given(nested_spaces(), st.integers(0, 2**16))
@settings(max_examples=150, deadline=None)
def test_samples_are_observations(space: gym.Space, seed: int) -> None:
    space.seed(seed)
    assert space_mismatch(space, space) is None
    samples = [space.sample() for _ in range(3)]
    check_observation(space, samples[0])
    batch = concatenate(space, samples, create_empty_array(space, 3))
    check_observation(space, batch, batched=True)
    batched = batch_space(space, 3)
    batched.seed(seed)
    check_observation(space, batched.sample(), batched=True)
    check_observation(space, samples, batched=True)


GOOD: dict[str, Any] = {"z": np.zeros((4, 4, 3), np.uint8), "a": (0, {"bits": [0, 1]})}


def test_a_wrong_leaf_is_named(golden: Golden) -> None:
    check_observation(NESTED, GOOD)
    cases: list[dict[str, Any]] = [
        {"z": np.zeros((4, 4))},
        {"z": "pixels"},
        {"a": (3, {"bits": [0, 1]})},
        {"a": (0, {"bits": [0, 2]})},
        {"a": (0, {"bits": [[0], [1, 0]]})},
        {"a": (0, {})},
        {"a": (0,)},
        {"a": 0},
    ]
    alone = refusals(lambda change: check_observation(NESTED, GOOD | change), cases)
    golden("spaces/a_wrong_leaf_is_named", alone)
    batch = lambda change: check_observation(NESTED, [GOOD, GOOD | change], batched=True)  # noqa: E731
    assert refusals(batch, cases) == alone


def test_wrong_observations_of_plain_spaces() -> None:
    with pytest.raises(ConfigError, match=r"^observation is of type ndarray, not a dict with "):
        check_observation(NESTED, np.zeros(3))
    with pytest.raises(ConfigError, match=r"^observation has shape \(3,\), not \(2,\)"):
        check_observation(Box(0, 1, (2,)), np.zeros(3))
    with pytest.raises(ConfigError, match=r"^observation has shape \(2,\), not \(batch, 2\)"):
        check_observation(Box(0, 1, (2,)), np.zeros(2), batched=True)
    check_observation(Box(0, 1, (2,)), [7.0, -7.0])  # bounds are the environment's affair
    two = Dict(a=Discrete(2), b=Discrete(2))
    with pytest.raises(ConfigError, match="at 'b' has 3 rows, the leaves before it 2"):
        check_observation(two, {"a": np.zeros(2), "b": np.zeros(3)}, batched=True)


_LARGE = {"type": "Box", "low": 0, "high": 1, "shape": [10**7], "dtype": "float32"}


def test_a_space_that_would_take_any_memory_is_refused_at_once() -> None:
    def check(description: dict[str, Any]) -> None:
        start = time.process_time()
        with pytest.raises(ConfigError, match=r"a space of .* is not allowed; allowed"):
            space_from_json(description)
        assert time.process_time() - start < 1

    rows = [
        {**_LARGE, "shape": [10**8]},
        {"type": "Tuple", "spaces": [_LARGE] * 20},
        {"type": "Dict", "spaces": [["a", {"type": "Dict", "spaces": [["b", _LARGE]] * 20}]]},
        {"type": "MultiBinary", "n": [10**5, 10**5]},
        {**_LARGE, "shape": [10], "dtype": "U1000000"},
        {**_LARGE, "shape": [10], "dtype": "S1000000"},
        {"type": "MultiDiscrete", "nvec": [2], "start": [0], "dtype": "V1000000"},
        {"type": "Discrete", "n": 2, "start": 0, "dtype": "O"},
    ]
    check_rows(check, rows)
