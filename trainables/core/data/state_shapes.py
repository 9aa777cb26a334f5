"""Stored arrays in the place of those that they were taken from."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainables.core.errors import ConfigError


def of_shape(own: np.ndarray, given: Any, what: str) -> np.ndarray:
    """Return a copy of a stored array, in its own type: some change theirs between reset and step.

    Raises:
        ConfigError: if its shape is not that of the one whose place it takes, or it is of
            another kind than numbers.
    """
    array = np.array(given)
    if array.shape != own.shape:
        raise ConfigError(f"{what} has shape {array.shape}, not {own.shape}")
    if array.dtype.kind not in ("b", "i", "u", "f", own.dtype.kind):
        raise ConfigError(f"{what} is of {array.dtype}, not of {own.dtype}")
    return array


def like(own: np.ndarray, given: Any, what: str) -> np.ndarray:
    """Return a copy of a stored array, of the type of the one whose place it takes.

    Raises:
        ConfigError: as `of_shape`.
    """
    return of_shape(own, given, what).astype(own.dtype)
