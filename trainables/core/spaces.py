"""Gymnasium spaces as JSON."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.settings import ConfigError


def space_to_json(space: gym.Space) -> dict[str, Any]:
    """A JSON-able description from which `space_from_json` makes an equal space."""
    if isinstance(space, gym.spaces.Box):
        return {
            "type": "Box",
            "low": _bounds_to_json(space.low),
            "high": _bounds_to_json(space.high),
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    if isinstance(space, gym.spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {
            "type": "MultiDiscrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
            "dtype": str(space.dtype),
        }
    raise ConfigError(
        f"space {space} is not supported yet; supported: Box, Discrete, MultiDiscrete"
    )


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
        return gym.spaces.Discrete(description["n"], start=description["start"])
    if kind == "MultiDiscrete":
        return gym.spaces.MultiDiscrete(
            description["nvec"],
            dtype=np.dtype(description["dtype"]).type,
            start=description["start"],
        )
    raise ConfigError(f"space type {kind!r} is unknown; known: Box, Discrete, MultiDiscrete")


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
