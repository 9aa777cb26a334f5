"""Gymnasium spaces as JSON."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.settings import ConfigError
from trainables.core.spaces import SUPPORTED


def space_to_json(space: gym.Space) -> dict[str, Any]:
    """A JSON-able description from which `space_from_json` makes an equal space.

    Raises:
        ConfigError: if the space, or a part of it, is not supported.
    """
    if isinstance(space, gym.spaces.Box):
        return {
            "type": "Box",
            "low": _bounds_to_json(space.low),
            "high": _bounds_to_json(space.high),
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    if isinstance(space, gym.spaces.Discrete):
        return {
            "type": "Discrete",
            "n": int(space.n),
            "start": int(space.start),
            "dtype": str(space.dtype),
        }
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {
            "type": "MultiDiscrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
            "dtype": str(space.dtype),
        }
    if isinstance(space, gym.spaces.MultiBinary):
        # n is a number or a shape, and equal spaces have equal ones.
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else [*space.n]}
    if isinstance(space, gym.spaces.Dict):
        parts = [[_key_to_json(key), space_to_json(part)] for key, part in space.spaces.items()]
        return {"type": "Dict", "spaces": parts}  # pairs: the order of the keys counts
    if isinstance(space, gym.spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
    raise ConfigError(f"space {space} is not supported; supported: {SUPPORTED}")


def space_from_json(description: dict[str, Any]) -> gym.Space:
    """The space that `space_to_json` described."""
    kind = description["type"]
    if kind == "Box":
        shape, dtype = tuple(description["shape"]), np.dtype(description["dtype"])
        return gym.spaces.Box(
            _bounds_from_json(description["low"], shape, dtype),
            _bounds_from_json(description["high"], shape, dtype),
            shape,
            dtype.type,
        )
    if kind == "Discrete":
        # Older files have no dtype.
        dtype = np.dtype(description.get("dtype", "int64"))
        return gym.spaces.Discrete(description["n"], start=description["start"], dtype=dtype.type)
    if kind == "MultiDiscrete":
        return gym.spaces.MultiDiscrete(
            description["nvec"],
            dtype=np.dtype(description["dtype"]).type,
            start=description["start"],
        )
    if kind == "MultiBinary":
        return gym.spaces.MultiBinary(description["n"])
    if kind == "Dict":
        # A list of pairs keeps its order; a dict would be sorted.
        return gym.spaces.Dict(
            [(key, space_from_json(part)) for key, part in description["spaces"]]
        )
    if kind == "Tuple":
        return gym.spaces.Tuple([space_from_json(part) for part in description["spaces"]])
    raise ConfigError(f"space type {kind!r} is unknown; known: {SUPPORTED}")


def _key_to_json(key: Any) -> str | int:
    if type(key) in (str, int):
        return key
    raise ConfigError(f"the key {key!r} of a Dict space is not allowed; allowed: str or int")


def _bounds_to_json(bounds: np.ndarray) -> Any:
    """One number where all are equal, else a flat list; strings for the infinite (strict JSON)."""
    flat = [_number_to_json(value) for value in bounds.ravel().tolist()]
    return flat[0] if len(set(flat)) == 1 else flat


def _number_to_json(value: float) -> float | str:
    return str(value) if value in (float("inf"), float("-inf")) else value


def _bounds_from_json(value: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    numbers = np.array(
        [
            float(v) if isinstance(v, str) else v
            for v in (value if isinstance(value, list) else [value])
        ],
        dtype=dtype,
    )
    return np.full(shape, numbers[0]) if numbers.size == 1 else numbers.reshape(shape)
