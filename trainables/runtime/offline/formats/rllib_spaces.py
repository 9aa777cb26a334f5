"""Spaces as RLlib describes them in the episodes that it writes."""

from __future__ import annotations

import base64
import binascii
import io
import zlib
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.space_json import space_from_json
from trainables.core.errors import ConfigError
from trainables.runtime.offline.bounds import MOST_BYTES
from trainables.runtime.offline.checks import Place


def rllib_space(described: Any, at: Place) -> gym.Space:
    """Return the space that a description stands for.

    Raises:
        DataError: if it is damaged, or of a kind that is not supported.
    """
    try:
        return space_from_json(_ours(described))
    except (
        KeyError,
        TypeError,
        ValueError,
        EOFError,
        MemoryError,
        zlib.error,
        ConfigError,
    ) as error:
        raise at.error(f"the space that it states is unreadable: {error}") from None


def _ours(described: dict[str, Any]) -> dict[str, Any]:
    """Return the description as `space_to_json` writes it."""
    kind = described["space"]
    if kind == "box":
        low, high = (_listed(described[end]) for end in ("low", "high"))
        dtype = str(np.dtype(described["dtype"]))
        return {
            "type": "Box",
            "low": low,
            "high": high,
            "shape": described["shape"],
            "dtype": dtype,
        }
    if kind == "discrete":
        return {"type": "Discrete", "n": described["n"], "start": described.get("start", 0)}
    if kind == "multi-discrete":
        nvec = _array(described["nvec"])
        start, dtype = np.zeros_like(nvec).tolist(), str(np.dtype(described["dtype"]))
        return {"type": "MultiDiscrete", "nvec": nvec.tolist(), "start": start, "dtype": dtype}
    if kind == "multi-binary":
        return {"type": "MultiBinary", "n": described["n"]}
    if kind == "tuple":
        return {"type": "Tuple", "spaces": [_ours(part) for part in described["spaces"]]}
    if kind == "dict":
        parts = [[key, _ours(part)] for key, part in described["spaces"].items()]
        return {"type": "Dict", "spaces": parts}
    raise ConfigError(f"a space of the kind {str(kind)[:40]!r} is not supported")


def _listed(text: str) -> list[Any]:
    flat: list[Any] = _array(text).ravel().tolist()
    return [str(value) if value in (float("inf"), -float("inf")) else value for value in flat]


def _array(text: str) -> np.ndarray:
    """Return a numpy file, compressed and in letters, as an array of numbers."""
    try:
        packed = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(error) from None
    stream = zlib.decompressobj()
    data = stream.decompress(packed, MOST_BYTES)
    if stream.unconsumed_tail:
        raise ValueError(f"an array has more than {MOST_BYTES:,} bytes")
    array: np.ndarray = np.load(io.BytesIO(data), allow_pickle=False)
    return array
