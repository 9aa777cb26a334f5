"""Spaces that the steps of Parquet files would fit, where nothing states them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from trainables.core.data.spaces import leaf_keys, leaf_spaces, map_leaves
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.formats.arrow_values import child, from_arrow
from trainables.runtime.offline.formats.inferred import told
from trainables.runtime.offline.formats.parquet_steps import ParquetSteps

_ROWS = 65_536


def inferred_spaces(name: str, files: Iterable[ParquetSteps]) -> DataSpaces:
    """Return spaces that the data would fit.

    Observations become Boxes without bounds, or with those of their integers' type, also of whole
    numbers: these may be counts or times. As actions they become Discrete, vectors of them
    MultiDiscrete: as many choices as the largest says.

    Args:
        name: The source, for messages.
        files: All its files.

    Raises:
        DataError: for continuous actions, whose bounds nothing tells, and for more choices than
            256.
    """
    found: dict[str, gym.Space] = {}
    largest: dict[tuple[str, str], np.ndarray] = {}
    for file in files:
        for ours in ("obs", "action"):
            if ours not in found:
                found[ours] = _first_guess(file, ours)
        spaces = DataSpaces(found["obs"], found["action"])
        for ours in ("obs", "action"):
            for path, (column, fields) in file.columns.of_leaves(ours, spaces).items():
                if isinstance(leaf_spaces(found[ours])[path], gym.spaces.Box):
                    continue
                for values in _values(file, column, fields):
                    top = values.max(0)
                    key = (ours, path)
                    largest[key] = np.maximum(largest[key], top) if key in largest else top
    if len(found) < 2:
        raise DataError("no file has rows to tell the spaces from")
    made = DataSpaces(*(_sized(found[ours], ours, largest) for ours in ("obs", "action")))
    whole = any(_is_one_whole_number(leaf) for leaf in leaf_spaces(made.observation).values())
    return told(name, made, whole=whole)


def _is_one_whole_number(leaf: gym.Space) -> bool:
    return isinstance(leaf, gym.spaces.Box) and leaf.shape == () and leaf.dtype.kind in "iu"


def _first_guess(file: ParquetSteps, ours: str) -> gym.Space:
    """Return the space of a file's first row, with choices not counted yet."""
    if file.has_episodes:
        raise Place(file.name, 0).error(
            "the episode states no spaces: give observation_space and action_space in the "
            "settings, or the environment"
        )
    columns = file.columns.leaf_columns(ours)
    for row, batch in file.batches(columns, 1):
        root = file.columns[ours]
        at = Place(file.name, row)
        if root in columns:
            return _space_of(batch.column(root), ours, at.of(root))
        parts: dict[str, Any] = {}
        for column in columns:
            *keys, last = column.split("/")[1:]
            inner = parts
            for key in keys:
                inner = inner.setdefault(key, {})
            inner[last] = _space_of(batch.column(column), ours, at.of(column))
        return _dict_space(parts)
    raise DataError(f"{file.name}: there are no rows to tell the spaces from")


def _dict_space(parts: dict[str, Any]) -> gym.Space:
    return gym.spaces.Dict(
        [
            (key, _dict_space(part) if isinstance(part, dict) else part)
            for key, part in parts.items()
        ]
    )


def _space_of(column: pa.Array, ours: str, at: Place) -> gym.Space:
    if pt.is_struct(column.type):
        names = [field.name for field in column.type]
        return gym.spaces.Dict([(n, _space_of(child(column, n), ours, at)) for n in names])
    values = from_arrow(column, at)
    shape, dtype = values.shape[1:], values.dtype
    if dtype.kind == "f" and ours == "action":
        raise at.error(
            f"the bounds of continuous actions (here {values[0]}) cannot be told: give "
            "observation_space and action_space in the settings, or the environment"
        )
    if dtype.kind == "f":
        return gym.spaces.Box(-np.inf, np.inf, shape, dtype.type)
    if dtype.kind == "b":
        return gym.spaces.MultiBinary(shape) if shape else gym.spaces.Discrete(2)
    if ours == "action":
        several = gym.spaces.MultiDiscrete(np.ones(shape, np.int64))
        return several if shape else gym.spaces.Discrete(1)
    limits = np.iinfo(dtype)
    return gym.spaces.Box(limits.min, limits.max, shape, dtype.type)


def _values(file: ParquetSteps, name: str, fields: tuple[str, ...]) -> Iterator[np.ndarray]:
    for row, batch in file.batches([name], _ROWS):
        column = batch.column(name)
        for field in fields:
            column = child(column, field)
        at = Place(file.name, row, name)
        values = from_arrow(column, at)
        if not values.size:
            raise at.error("rows have no values, of which no space can be told")
        if values.min() < 0:
            first = int((values.reshape(len(values), -1).min(1) < 0).argmax())
            raise at.error(
                f"{values[first]} is negative: the space cannot be told; give it in the settings",
                first,
            )
        yield values.astype(np.int64)


def _sized(space: gym.Space, ours: str, largest: dict[tuple[str, str], np.ndarray]) -> gym.Space:
    paths = iter(leaf_keys(space))

    def sized(leaf: gym.Space, _: Any) -> gym.Space:
        top = largest.get((ours, next(paths)))
        if isinstance(leaf, gym.spaces.Discrete):
            return gym.spaces.Discrete(max(int(leaf.n), int(top) + 1)) if top is not None else leaf
        if isinstance(leaf, gym.spaces.MultiDiscrete) and top is not None:
            return gym.spaces.MultiDiscrete(top + 1)
        return leaf

    made = map_leaves(sized, space, space)  # a space is a tree of its parts
    return gym.spaces.Dict(list(made.items())) if isinstance(made, dict) else made
