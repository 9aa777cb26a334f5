"""Spaces that the steps of JSON lines would fit, where nothing states them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.spaces import leaf_spaces
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.formats.inferred import told
from trainables.runtime.offline.formats.json_file import Line, num_rows
from trainables.runtime.offline.formats.json_steps import array_of, leaf_values


def inferred_spaces(name: str, lines: Iterable[Line]) -> DataSpaces:
    """Return spaces that the data would fit.

    Observations become Boxes without bounds, also of whole numbers: these may be counts or times.
    As actions they become Discrete, vectors of them MultiDiscrete: as many choices as the largest
    says.

    Args:
        name: The source, for messages.
        lines: All its lines.

    Raises:
        DataError: for continuous actions, whose bounds nothing tells, and for more choices than
            256.
    """
    iterator = iter(lines)
    first = next(iterator, None)
    if first is None:
        raise DataError(f"{name}: there are no rows to tell the spaces from")
    guess = DataSpaces(_guess(first, "obs"), _guess(first, "action"))
    largest: dict[tuple[str, str], np.ndarray] = {}
    for line in _with_first(first, iterator):
        for ours, path in _counted(guess):
            values, at = leaf_values(line, ours, path, guess)
            top = _largest(values, at)
            key = ours, path
            largest[key] = np.maximum(largest[key], top) if key in largest else top
    made = DataSpaces(
        _sized(guess.observation, "obs", (), largest), _sized(guess.action, "action", (), largest)
    )
    return told(name, made, whole=_has_whole_numbers(first, made))


def _has_whole_numbers(line: Line, spaces: DataSpaces) -> bool:
    """Tell whether observations have leaves of one whole number each."""
    single = [path for path, leaf in leaf_spaces(spaces.observation).items() if leaf.shape == ()]
    return any(leaf_values(line, "obs", path, spaces)[0].dtype.kind in "iu" for path in single)


def _with_first(first: Line, others: Iterator[Line]) -> Iterator[Line]:
    yield first
    yield from others


def _guess(line: Line, ours: str) -> gym.Space:
    """Return the space of a line's observations or actions, with choices not counted yet."""
    columns = line.columns.leaf_columns(ours)
    root = line.columns[ours]
    if root in columns:
        return _space_of(line.values[root], ours, line.at.of(root))
    tree: dict[str, Any] = {}
    for column in columns:
        *keys, last = column.split("/")[1:]
        inner = tree
        for key in keys:
            inner = inner.setdefault(key, {})
        inner[last] = line.values[column]
    return _space_of(tree, ours, line.at.of(root))


def _space_of(value: Any, ours: str, at: Place) -> gym.Space:
    if isinstance(value, dict):
        if not value:
            raise at.error("it is an object without parts, of which no space can be told")
        parts = [
            (key, _space_of(part, ours, at.of(f"{at.column}/{key}"))) for key, part in value.items()
        ]
        return gym.spaces.Dict(parts)
    if not num_rows(value, at):
        raise at.error("it has no rows, of which no space can be told")
    values = array_of(value, at)
    shape, dtype = values.shape[1:], values.dtype
    if dtype.kind == "f" and ours == "action":
        raise at.error(
            f"the bounds of continuous actions (here {values[0]}) cannot be told: give "
            "observation_space and action_space in the settings, or the environment"
        )
    if dtype.kind == "f" or (ours == "obs" and (shape or dtype.kind != "b")):
        # Text says no type: 1.0 may well have been written as 1.
        kind = dtype.type if dtype.kind in "iu" and dtype.itemsize == 1 else np.float32
        if kind is np.float32:
            return gym.spaces.Box(-np.inf, np.inf, shape, np.float32)
        return gym.spaces.Box(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind)
    return gym.spaces.MultiDiscrete(np.ones(shape, np.int64)) if shape else gym.spaces.Discrete(1)


def _counted(spaces: DataSpaces) -> Iterator[tuple[str, str]]:
    """Yield which leaves are choices."""
    for ours, space in (("obs", spaces.observation), ("action", spaces.action)):
        for path, leaf in leaf_spaces(space).items():
            if not isinstance(leaf, gym.spaces.Box):
                yield ours, path


def _largest(values: np.ndarray, at: Place) -> np.ndarray:
    """Return the largest choices of rows `[N, *shape]`."""
    if values.dtype.kind == "f":
        raise at.error("values are fractions, those in the first line of data whole numbers")
    negative = (values < 0).reshape(len(values), -1).any(1)
    if negative.any():
        row = int(negative.argmax())
        raise at.error(
            f"{values[row]} is negative: the space cannot be told; give it in the settings", row
        )
    return np.asarray(values.max(0), np.int64)


def _sized(
    space: gym.Space, ours: str, keys: tuple[str, ...], largest: dict[tuple[str, str], np.ndarray]
) -> gym.Space:
    if isinstance(space, gym.spaces.Dict):
        parts = space.spaces.items()
        return gym.spaces.Dict([(k, _sized(p, ours, (*keys, k), largest)) for k, p in parts])
    path = "/".join(keys) or next(iter(leaf_spaces(space)))
    if isinstance(space, gym.spaces.Discrete):
        return gym.spaces.Discrete(int(largest[ours, path]) + 1)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return gym.spaces.MultiDiscrete(largest[ours, path] + 1)
    return space
