"""Gymnasium spaces as JSON."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.spaces import SUPPORTED
from trainables.core.errors import ConfigError

_MAX = 3 * 10**7  # elements, or choices: more than an image of 3840 x 2160 has
_KINDS = "biuf"  # of numpy's types: a text of a given length would take any memory


def space_to_json(space: gym.Space) -> dict[str, Any]:
    """Return a JSON-able description from which `space_from_json` makes an equal space.

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
    """Return the space that `space_to_json` described.

    Raises:
        ConfigError: for an unknown type, or one of more elements than any environment has.
    """
    check_size(description)
    return _space(description)


def check_size(description: dict[str, Any]) -> None:
    """Raise if a described space would take more memory than any environment's.

    Args:
        description: As `space_to_json` makes it, or Minari's.

    Raises:
        ConfigError: naming its size.
    """
    size = _size(description)
    if size > _MAX:
        raise ConfigError(f"a space of {size:.0e} elements is not allowed; allowed: {_MAX:.0e}")


def _size(description: dict[str, Any]) -> float:
    """Return how many elements, or choices, the parts of a space have together.

    Read before memory is taken for any of them.
    """
    kind = description["type"]
    if kind in ("Dict", "Tuple") and "subspaces" in description:  # as Minari has them
        parts = description["subspaces"]
        return sum(map(_size, parts.values() if kind == "Dict" else parts))
    if kind == "Dict":
        return sum(_size(part) for _, part in description["spaces"])
    if kind == "Tuple":
        return sum(_size(part) for part in description["spaces"])
    size = description.get("shape", description.get("n", description.get("nvec", 1)))
    numbers = np.array(size, dtype=object).ravel().tolist()
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise ConfigError(f"a space of size {size!r} is not allowed; allowed: whole numbers")
    if kind == "MultiDiscrete":  # apart from each other, not in all combinations
        return float(sum(numbers))
    return math.prod(map(float, numbers))


def _space(description: dict[str, Any]) -> gym.Space:
    kind = description["type"]
    if kind == "Box":
        shape, dtype = tuple(description["shape"]), _dtype(description["dtype"])
        return gym.spaces.Box(
            _bounds_from_json(description["low"], shape, dtype),
            _bounds_from_json(description["high"], shape, dtype),
            shape,
            dtype.type,
        )
    if kind == "Discrete":
        # Older files have no dtype.
        dtype = _dtype(description.get("dtype", "int64"))
        return gym.spaces.Discrete(description["n"], start=description["start"], dtype=dtype.type)
    if kind == "MultiDiscrete":
        return gym.spaces.MultiDiscrete(
            description["nvec"], dtype=_dtype(description["dtype"]).type, start=description["start"]
        )
    if kind == "MultiBinary":
        return gym.spaces.MultiBinary(description["n"])
    if kind == "Dict":
        # A list of pairs keeps its order; a dict would be sorted.
        return gym.spaces.Dict([(key, _space(part)) for key, part in description["spaces"]])
    if kind == "Tuple":
        return gym.spaces.Tuple([_space(part) for part in description["spaces"]])
    raise ConfigError(f"space type {kind!r} is unknown; known: {SUPPORTED}")


def _dtype(name: str) -> np.dtype:
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS:
        raise ConfigError(f"a space of type {name!r} is not allowed; allowed: numbers")
    return dtype


def _key_to_json(key: Any) -> str | int:
    if type(key) in (str, int):
        return key
    raise ConfigError(f"the key {key!r} of a Dict space is not allowed; allowed: str or int")


def _bounds_to_json(bounds: np.ndarray) -> Any:
    """Return one number if all are equal, else a flat list; infinities as strings."""
    flat = [str(v) if v in (math.inf, -math.inf) else v for v in bounds.ravel().tolist()]
    return flat[0] if len(set(flat)) == 1 else flat


def _bounds_from_json(value: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    values = value if isinstance(value, list) else [value]
    numbers = np.array([float(v) if isinstance(v, str) else v for v in values], dtype=dtype)
    return np.full(shape, numbers[0]) if numbers.size == 1 else numbers.reshape(shape)
