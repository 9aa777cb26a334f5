"""Spaces that are supported, their leaves, and the check of what fits them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import getitem
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.errors import ConfigError

SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of them, nested at will"
PLAIN = "@obs"  # the path of the only leaf of a space that is no Dict or Tuple

Keys = tuple[str | int, ...]
_LEAVES = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
_NESTED = (gym.spaces.Dict, gym.spaces.Tuple)


def leaf_spaces(space: gym.Space, what: str = "observation space") -> dict[str, gym.Space]:
    """Return the leaves of a space by path: the keys that lead to each.

    Keys are joined by "/", e.g. `camera/rgb` or `0/1`; the path of a plain space is `PLAIN`.

    Args:
        space: Any space.
        what: The name of the space in errors.

    Raises:
        ConfigError: if a leaf is not supported, if two have the same path, or if there is none.
    """
    leaves: dict[str, gym.Space] = {}
    for keys, leaf in _walk(space, ()):
        path = path_of(keys)
        if not isinstance(leaf, _LEAVES):
            raise ConfigError(f"{what} {leaf}{_at(keys)} is not supported; supported: {SUPPORTED}")
        if path in leaves or (keys and path.startswith("@")):
            raise ConfigError(
                f"{what}: the key {path!r} is not allowed; allowed: keys that do not begin with "
                "'@', and that stay apart when nested ones are joined by '/'"
            )
        leaves[path] = leaf
    if not leaves:
        raise ConfigError(f"{what} {space} is not supported: it has no leaves")
    return leaves


def leaf_keys(space: gym.Space) -> dict[str, Keys]:
    """Return the keys that lead to each leaf of a space, by path."""
    return {path_of(keys): keys for keys, _ in _walk(space, ())}


def leaves_of(space: gym.Space, tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree that is nested as a space is, by path."""
    return {path: reduce(getitem, keys, tree) for path, keys in leaf_keys(space).items()}


def tree_of_leaves(space: gym.Space, leaves: Mapping[str, Any]) -> Any:
    """Return the tree, nested as a space is, whose leaves by path are given: undoes `leaves_of`."""
    return _tree(space, leaves, ())


def zeros_of(space: gym.Space, leading: tuple[int, ...] = ()) -> Any:
    """Return zeros, or first choices, nested as a space is, each leaf `[*leading, *shape]`."""
    leaves = {}
    for path, leaf in leaf_spaces(space).items():
        zeros = np.zeros((*leading, *(leaf.shape or ())), leaf.dtype)
        leaves[path] = zeros + np.asarray(getattr(leaf, "start", 0), leaf.dtype)
    return tree_of_leaves(space, leaves)


def _tree(space: gym.Space, leaves: Mapping[str, Any], keys: Keys) -> Any:
    if isinstance(space, gym.spaces.Dict):
        return {key: _tree(part, leaves, (*keys, key)) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_tree(part, leaves, (*keys, i)) for i, part in enumerate(space.spaces))
    return leaves[path_of(keys)]


def map_leaves(function: Callable[[gym.Space, Any], Any], space: gym.Space, tree: Any) -> Any:
    """Return the tree of `function(leaf's space, leaf)`, called in the order of the leaves."""
    if isinstance(space, gym.spaces.Dict):
        return {key: map_leaves(function, part, tree[key]) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        parts = zip(space.spaces, tree, strict=True)
        return tuple(map_leaves(function, part, leaf) for part, leaf in parts)
    return function(space, tree)


def path_of(keys: Keys) -> str:
    """Return the path of a leaf that keys lead to."""
    return "/".join(str(key) for key in keys) if keys else PLAIN


def space_mismatch(mine: gym.Space, theirs: gym.Space) -> str | None:
    """Return why what is made for one space cannot be used with another one, or None if it can.

    Kinds, keys, shapes, counts and starts must agree. Bounds and precision of boxes may differ, as
    they do between versions of an environment, but not whether they hold integers.
    """
    return _mismatch(mine, theirs, ())


def check_observation(
    space: gym.Space, obs: Any, *, batched: bool = False, what: str = "observation"
) -> None:
    """Check that an observation is one of a space; a Box's bounds may be left.

    Args:
        space: The space of one observation.
        obs: An observation or a batch of them, nested as the space is.
        batched: Whether it is a batch: every leaf has one axis more at the front. A batch of a
            Dict or Tuple space may also be a list of single observations.
        what: The name of the observation in errors.

    Raises:
        ConfigError: naming the leaf and what is wrong with it.
    """
    is_list = batched and isinstance(space, _NESTED) and isinstance(obs, list)
    try:
        for one in obs if is_list else [obs]:
            _check(space, one, (), set() if batched and not is_list else None)
    except _NotOne as problem:
        raise ConfigError(f"{what}{problem}") from None


def _walk(space: gym.Space, keys: Keys) -> Iterator[tuple[Keys, gym.Space]]:
    if isinstance(space, gym.spaces.Dict):
        for key, part in space.spaces.items():
            yield from _walk(part, (*keys, key))
    elif isinstance(space, gym.spaces.Tuple):
        for index, part in enumerate(space.spaces):
            yield from _walk(part, (*keys, index))
    else:
        yield keys, space


def _at(keys: Keys) -> str:
    return f" at {path_of(keys)!r}" if keys else ""


def _mismatch(mine: gym.Space, theirs: gym.Space, keys: Keys) -> str | None:
    kinds = [_kind(space) for space in (mine, theirs)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]} against {kinds[1]}{_at(keys)}"
    if isinstance(mine, gym.spaces.Dict) and isinstance(theirs, gym.spaces.Dict):
        if mine.spaces.keys() != theirs.spaces.keys():
            return f"keys {[*mine.spaces]} against {[*theirs.spaces]}{_at(keys)}"
        pairs = [((*keys, key), part, theirs.spaces[key]) for key, part in mine.spaces.items()]
    elif isinstance(mine, gym.spaces.Tuple) and isinstance(theirs, gym.spaces.Tuple):
        if len(mine.spaces) != len(theirs.spaces):
            return f"{len(mine.spaces)} parts against {len(theirs.spaces)}{_at(keys)}"
        parts = zip(mine.spaces, theirs.spaces, strict=True)
        pairs = [((*keys, index), *both) for index, both in enumerate(parts)]
    else:
        return _leaf_mismatch(mine, theirs, keys)
    found = (_mismatch(part, other, path) for path, part, other in pairs)
    return next((text for text in found if text is not None), None)


def _leaf_mismatch(mine: gym.Space, theirs: gym.Space, keys: Keys) -> str | None:
    if mine.shape != theirs.shape:
        return f"shape {mine.shape} against {theirs.shape}{_at(keys)}"
    if isinstance(mine, gym.spaces.MultiBinary):
        return None
    for name in ("n", "nvec", "start"):
        ours, other = (getattr(space, name, None) for space in (mine, theirs))
        if not np.array_equal(ours, other):  # type: ignore[arg-type]
            return f"{name} {_short(ours)} against {_short(other)}{_at(keys)}"
    return None


def _kind(space: gym.Space) -> str:
    if isinstance(space, gym.spaces.Box):
        return "Box of " + ("floats" if np.issubdtype(space.dtype, np.floating) else "integers")
    kinds = (*_LEAVES, *_NESTED)
    return next((kind.__name__ for kind in kinds if isinstance(space, kind)), type(space).__name__)


def _short(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _check(space: gym.Space, obs: Any, keys: Keys, sizes: set[int] | None) -> None:
    """Check what lies below some keys; `sizes` collects those of the batch axis if there is one."""
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(obs, Mapping):
            raise _bad(keys, f"is of type {type(obs).__name__}, not a dict with {[*space.spaces]}")
        missing = [key for key in space.spaces if key not in obs]
        if missing:
            raise _bad(keys, f"has no key {missing[0]!r}; its keys are {[*obs]}")
        for key, part in space.spaces.items():
            _check(part, obs[key], (*keys, key), sizes)
    elif isinstance(space, gym.spaces.Tuple):
        count = len(space.spaces)
        if not isinstance(obs, (tuple, list)):
            raise _bad(keys, f"is of type {type(obs).__name__}, not a tuple of {count}")
        if len(obs) != count:
            raise _bad(keys, f"has {len(obs)} parts, not {count}")
        for index, part in enumerate(space.spaces):
            _check(part, obs[index], (*keys, index), sizes)
    else:
        _check_leaf(space, obs, keys, sizes)


def _check_leaf(space: gym.Space, obs: Any, keys: Keys, sizes: set[int] | None) -> None:
    try:
        array = np.asarray(obs)
    except ValueError as error:  # rows of different lengths
        raise _bad(keys, f"is no array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise _bad(keys, f"is {array.dtype}, not numbers: {obs!r}")
    expected, shape = space.shape or (), array.shape
    if sizes is not None:
        if array.ndim == 0 or shape[1:] != expected:
            raise _bad(keys, f"has shape {shape}, not (batch, {', '.join(map(str, expected))})")
        sizes.add(len(array))
        if len(sizes) > 1:
            raise _bad(keys, f"has {len(array)} rows, the leaves before it {min(sizes)}")
    elif shape != expected:
        raise _bad(keys, f"has shape {shape}, not {expected}")
    low, count = _range(space)
    outside = None if count is None else (array < low) | (array >= low + count)
    if outside is not None and outside.any():
        raise _bad(keys, f"has the value {array[outside][0]}, which {space} does not have")


def _range(space: gym.Space) -> tuple[Any, Any]:
    """Return the least value and how many there are, None if that is not limited."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.start), int(space.n)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.start.astype(np.int64), space.nvec.astype(np.int64)
    return (0, 2) if isinstance(space, gym.spaces.MultiBinary) else (0, None)


class _NotOne(Exception):
    """The error of what is not of its space; `check_observation` gives it its name."""


def _bad(keys: Keys, problem: str) -> _NotOne:
    return _NotOne(f"{_at(keys)} {problem}")
