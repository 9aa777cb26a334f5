"""Hypothesis strategies of random nested spaces."""

from __future__ import annotations

from collections.abc import Collection

import gymnasium as gym
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

OBSERVATION_LEAVES = ("box", "integer_box", "discrete", "multi_discrete", "multi_binary")
ACTION_LEAVES = ("bounded_box", *OBSERVATION_LEAVES)

_DTYPES = (np.float32, np.float64, np.float16)
_INTEGERS = (np.int64, np.int32, np.uint8, np.int8, np.uint16)


def shapes(max_rank: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of up to `max_rank` axes of up to 3."""
    return st.lists(st.integers(1, 3), max_size=max_rank).map(tuple)


@st.composite
def _float_box(draw: st.DrawFn, max_rank: int, bounded: bool) -> gym.Space:
    shape, dtype = draw(shapes(max_rank)), draw(st.sampled_from(_DTYPES))
    low = draw(hnp.arrays(np.float16, shape, elements=st.integers(-8, 4)))
    width = draw(hnp.arrays(np.float16, shape, elements=st.sampled_from([0.25, 1.0, 5.0])))
    low, high = low.astype(dtype), (low + width).astype(dtype)
    if not bounded:
        low = np.where(draw(hnp.arrays(np.bool_, shape)), low, -np.inf).astype(dtype)
        high = np.where(draw(hnp.arrays(np.bool_, shape)), high, np.inf).astype(dtype)
    return gym.spaces.Box(low, high, shape, dtype)


@st.composite
def _integer_box(draw: st.DrawFn, max_rank: int) -> gym.Space:
    shape, dtype = draw(shapes(max_rank)), draw(st.sampled_from(_INTEGERS))
    low = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 3)))
    if np.issubdtype(dtype, np.signedinteger):
        low = low - 2
    width = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 4)))
    return gym.spaces.Box(low.astype(dtype), (low + width).astype(dtype), shape, dtype)


@st.composite
def _discrete(draw: st.DrawFn) -> gym.Space:
    start, dtype = draw(st.integers(-3, 3)), draw(st.sampled_from((np.int64, np.int32)))
    return gym.spaces.Discrete(draw(st.integers(1, 4)), start=start, dtype=dtype)


@st.composite
def _multi_discrete(draw: st.DrawFn, max_rank: int) -> gym.Space:
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=max(1, max_rank)).map(tuple))
    dtype = draw(st.sampled_from((np.int64, np.int32)))
    nvec = draw(hnp.arrays(np.int64, shape, elements=st.integers(1, 4)))
    start = draw(hnp.arrays(np.int64, shape, elements=st.integers(-3, 3)))
    return gym.spaces.MultiDiscrete(nvec, dtype=dtype, start=start)


@st.composite
def _multi_binary(draw: st.DrawFn, max_rank: int) -> gym.Space:
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=max(1, max_rank)))
    return gym.spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)


def leaf_spaces_of(kinds: Collection[str], max_rank: int = 3) -> st.SearchStrategy[gym.Space]:
    """Spaces that are not nested.

    Args:
        kinds: Of `ACTION_LEAVES`; "box" may have infinite bounds.
        max_rank: Most axes of a leaf.
    """
    strategies = {
        "box": _float_box(max_rank, False),
        "bounded_box": _float_box(max_rank, True),
        "integer_box": _integer_box(max_rank),
        "discrete": _discrete(),
        "multi_discrete": _multi_discrete(max_rank),
        "multi_binary": _multi_binary(max_rank),
    }
    return st.one_of([strategies[kind] for kind in kinds])


def nested_spaces(
    max_depth: int = 3,
    kinds: Collection[str] = OBSERVATION_LEAVES,
    max_rank: int = 3,
    max_parts: int = 3,
) -> st.SearchStrategy[gym.Space]:
    """Dict and Tuple spaces nested up to `max_depth` times, or plain ones.

    Args:
        max_depth: 0: only leaves.
        kinds: Kinds of leaves, see `leaf_spaces_of`.
        max_rank: Most axes of a leaf.
        max_parts: Most parts of a Dict or Tuple.
    """
    spaces = leaf_spaces_of(kinds, max_rank)
    for _ in range(max_depth):
        parts = st.lists(spaces, min_size=1, max_size=max_parts)
        keys = st.permutations(["b", "a", "key with spaces", "z.0"])  # not in sorted order
        dicts = st.tuples(keys, parts).map(
            lambda pair: gym.spaces.Dict(list(zip(pair[0], pair[1], strict=False)))
        )
        spaces = st.one_of(leaf_spaces_of(kinds, max_rank), dicts, parts.map(gym.spaces.Tuple))
    return spaces
