"""RLlib's Parquet files with an episode a row: msgpack, read without unpickling.

Each row's `item` is the state of an episode, or of a piece of one: arrays as bytes with a type and
a shape. Arrays of objects are pickles; they are passed over unless they would be needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.spaces import leaf_keys
from trainables.runtime.offline.checks import Place, check_finite, fitted
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.formats.rllib_spaces import rllib_space
from trainables.runtime.offline.joining import Steps
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.offline.recorded_actions import fitted_actions

ITEM = "item"  # the only column
_NUMBER = re.compile(r"[<>|=]?[biuf]\d{1,2}")
_PICKLED = "a pickle, and pickles are not loaded"


class _Refused:
    """What stands for a value that is not read."""

    def __init__(self, why: str):
        self.why = why


def is_of_episodes(schema: pa.Schema) -> bool:
    """Return whether a file has an episode a row."""
    if schema.names != [ITEM]:
        return False
    type_ = schema.field(ITEM).type
    return bool(pt.is_binary(type_) or pt.is_large_binary(type_))


def spaces_of_item(item: bytes | None, at: Place) -> DataSpaces | None:
    """Return the spaces that an episode states; None: it states none.

    Raises:
        DataError: if they cannot be read.
    """
    state = _state(item, at)
    described = [state.get(f"_{what}_space") for what in ("observation", "action")]
    if not all(isinstance(each, dict) for each in described):
        return None
    return DataSpaces(*(rllib_space(each, at) for each in described))


def steps_of_item(
    item: bytes | None, spaces: DataSpaces, options: ReadOptions, at: Place
) -> Steps | None:
    """Return the steps of an episode; None: it has none.

    Args:
        item: Its bytes.
        spaces: What observations and actions must be of.
        options: How they are taken.
        at: Its row.

    Raises:
        DataError: naming row and part of what does not fit.
    """
    return _steps(_state(item, at), spaces, options, at)


def agent_of_item(item: bytes | None, at: Place) -> str:
    """Return the agent of an episode; empty: it names none.

    Args:
        item: Its bytes.
        at: Its row.

    Raises:
        DataError: if it is no episode.
    """
    agent = _state(item, at).get("agent_id")
    return "" if agent is None else str(agent)


def _state(item: bytes | None, at: Place) -> dict[str, Any]:
    if item is None:
        raise at.of(ITEM).error("the value is missing (null)")
    try:
        state = msgpack.unpackb(item, object_hook=_arrays, strict_map_key=False)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise at.of(ITEM).error(f"it is no whole msgpack: {error}") from None
    if not isinstance(state, dict) or not {"observations", "actions", "rewards"} <= state.keys():
        raise at.of(ITEM).error("it is no state of an episode of RLlib's")
    return state


def _arrays(value: dict[Any, Any]) -> Any:
    """Return the array or number that a map of msgpack_numpy's stands for, else the map."""
    if b"nd" not in value and b"complex" not in value:
        return value
    kind, shape, data = value.get(b"type"), value.get(b"shape", []), value.get(b"data")
    if value.get(b"kind") == b"O":
        return _Refused(_PICKLED)
    if not (isinstance(kind, str) and _NUMBER.fullmatch(kind) and isinstance(data, bytes)):
        return _Refused(f"an array of type {str(kind)[:40]}; allowed: numbers")
    sizes = shape if isinstance(shape, list) else [-1]
    dtype = np.dtype(kind)
    if not all(type(size) is int and size >= 0 for size in sizes):
        return _Refused("an array whose shape is none")
    if math.prod(sizes) * dtype.itemsize != len(data):
        return _Refused(f"an array of shape {sizes} and type {kind} with {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(sizes).astype(dtype.newbyteorder("="), copy=False)


def _steps(
    state: dict[str, Any], spaces: DataSpaces, options: ReadOptions, at: Place
) -> Steps | None:
    parts = {name: _buffer(state[name], at.of(name)) for name in ("observations", "actions")}
    rewards = _rewards(state, at)
    length = len(rewards)
    if not length:
        return None
    at = Place(at.file, at.row, per_row=length + 1)
    obs_layout, action_layout = spaces.obs_layout, spaces.action_layout
    obs = obs_layout.empty((length + 1,))
    actions = action_layout.empty((length,))
    for path, values, place in _leaves(parts["observations"], obs_layout, at.of("observations")):
        rows = obs if obs_layout.is_plain else obs[path]
        rows[...] = fitted(_of_length(values, length + 1, place), _leaf(obs_layout, path), place)
    for path, values, place in _leaves(parts["actions"], action_layout, at.of("actions")):
        rows = actions if action_layout.is_plain else actions[path]
        values = _of_length(values, length, place)
        rows[...] = fitted_actions(values, _leaf(action_layout, path), place, options)
    flags = {}
    for name in ("is_terminated", "is_truncated"):
        flags[name] = np.zeros(length, np.bool_)
        flags[name][-1] = bool(np.all(state.get(name, False)))
    agent, module, start = (state.get(name) for name in ("agent_id", "module_id", "t_started"))
    return Steps(
        obs=obs[:-1],
        actions=actions,
        rewards=rewards,
        terminated=flags["is_terminated"],
        truncated=flags["is_truncated"],
        logp=_logp(state, length, at),
        starts=np.zeros(1, np.int64),
        first_steps=np.array([start if isinstance(start, int) else 0]),
        ids=[str(state.get("id_", ""))],
        agents=None if agent is None else [str(agent)],
        next_obs=obs[-1:],
        has_next=np.ones(1, np.bool_),
        file=at.file,
        row=at.row,
        modules=None if module is None else [str(module)],
    )


def _buffer(buffer: Any, at: Place) -> Any:
    """Return the values of one of an episode's buffers, without what lies before its steps."""
    if not isinstance(buffer, dict) or "data" not in buffer:
        raise at.error("it is no buffer of an episode of RLlib's")
    before = buffer.get("lookback", 0)
    return _without(buffer["data"], before if isinstance(before, int) else 0)


def _without(data: Any, count: int) -> Any:
    if isinstance(data, dict):
        return {key: _without(part, count) for key, part in data.items()}
    return data[count:] if isinstance(data, (list, np.ndarray)) else data


def _rewards(state: dict[str, Any], at: Place) -> np.ndarray:
    at = at.of("rewards")
    data = _buffer(state["rewards"], at)
    values = _array(data, at)
    if len(values) and values.ndim != 1:
        raise at.error(f"values have shape {values.shape[1:]}, not one number each")
    check_finite(values, Place(at.file, at.row, at.column, per_row=len(values) + 1))
    return values.astype(np.float32, copy=False)


def _logp(state: dict[str, Any], length: int, at: Place) -> np.ndarray:
    outputs = state.get("extra_model_outputs")
    noted = outputs.get("action_logp") if isinstance(outputs, dict) else None
    if not isinstance(noted, dict):
        return np.full(length, np.nan, np.float32)
    at = at.of("action_logp")
    values = _array(_buffer(noted, at), at).astype(np.float32)
    return _of_length(values, length, at).reshape(length)


def _leaves(
    data: Any, layout: ObservationLayout, at: Place
) -> Iterator[tuple[str, np.ndarray, Place]]:
    """Yield the leaves of observations or actions: path, values `[N, ...]`, place.

    They are trees of arrays, or lists of trees.
    """
    for path, keys in leaf_keys(layout.space).items():
        place = at.of("/".join((at.column, *map(str, keys))))
        if isinstance(data, list) and keys:
            found: Any = [_at(each, keys, place) for each in data]
        else:
            found = _at(data, keys, place)
        yield path, _array(found, place), place


def _at(tree: Any, keys: tuple[Any, ...], at: Place) -> Any:
    for key in keys:
        of_dict = isinstance(tree, dict) and key in tree
        if not of_dict and not (isinstance(tree, list) and key in range(len(tree))):
            raise at.error(f"there is no part {key!r}, which the space needs")
        tree = tree[key]
    return tree


def _array(data: Any, at: Place) -> np.ndarray:
    if isinstance(data, list):
        refused = next((each for each in data if isinstance(each, _Refused)), None)
        if refused is None:
            try:
                data = np.array(data)
            except ValueError:
                raise at.error("its rows are of different shapes") from None
        else:
            data = refused
    if isinstance(data, _Refused):
        raise at.error(f"it holds {data.why}")
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "biuf" or not data.ndim:
        raise at.error(f"it holds {type(data).__name__}, not a number or an array a step")
    return data


def _of_length(values: np.ndarray, length: int, at: Place) -> np.ndarray:
    if len(values) != length:
        raise at.error(f"it has {len(values)} values, and {length} are needed")
    return values


def _leaf(layout: ObservationLayout, path: str) -> Any:
    return layout.leaf_spaces[path]
