"""What an agent sees, as a human reads it: a board where it is one, else its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

MARKS = "xo*+#"
"""The marks of the planes of a board, in order."""


def observation_text(
    observation: Any, mask: np.ndarray | None = None, hidden: tuple[str, ...] = ()
) -> str:
    """Return an observation as lines of text.

    Args:
        observation: One agent's, not batched.
        mask: Which discrete actions are allowed, `[n]`; None: all, or actions are no numbers.
        hidden: Keys of a Dict observation that are left out.
    """
    if isinstance(observation, Mapping):
        shown = {key: part for key, part in observation.items() if key not in hidden}
        texts = {key: observation_text(part, mask, hidden) for key, part in shown.items()}
        if len(texts) == 1:
            return next(iter(texts.values()))
        return "\n".join(
            f"{key}:\n{text}" if "\n" in text else f"{key}: {text}" for key, text in texts.items()
        )
    if isinstance(observation, tuple):
        return "\n".join(observation_text(part, mask, hidden) for part in observation)
    values = np.asarray(observation)
    pieces = pieces_of(values)
    if pieces is not None:
        return board_text(pieces, mask)
    return np.array2string(
        values, precision=3, suppress_small=True, threshold=500, max_line_width=100
    )


def pieces_of(planes: np.ndarray) -> np.ndarray | None:
    """Return a board of which each plane has one kind of pieces, `[H, W, C]`; None: it is none.

    Args:
        planes: The observation. Planes stand last, as in PettingZoo's games, or first: there are
            fewer of them than rows or columns.
    """
    if planes.ndim != 3 or not np.isin(planes, (0, 1)).all():
        return None
    pieces = planes if planes.shape[2] <= planes.shape[0] else np.moveaxis(planes, 0, 2)
    is_board = min(pieces.shape) >= 2 and pieces.shape[2] <= len(MARKS)
    return pieces if is_board and (pieces.sum(axis=2) <= 1).all() else None


def marks_text(observation: Any) -> str:
    """Return what the marks of a board stand for; "" where an agent sees none."""
    if isinstance(observation, Mapping):
        return next(filter(None, map(marks_text, observation.values())), "")
    pieces = None if isinstance(observation, tuple) else pieces_of(np.asarray(observation))
    if pieces is None:
        return ""
    marks = ", ".join(f"{MARKS[plane]} is plane {plane}" for plane in range(pieces.shape[2]))
    return f"Of what you observe {marks}."


def board_text(pieces: np.ndarray, mask: np.ndarray | None = None) -> str:
    """Return a board as lines of text.

    An empty cell shows the action that its
    place is the number of, where just the empty cells may be acted on; a row of columns' numbers
    stands above where each action is a column.

    Args:
        pieces: See `pieces_of`.
        mask: Which discrete actions are allowed, `[n]`; None: all.
    """
    height, width, count = pieces.shape
    is_empty = ~pieces.any(axis=2)
    cells = np.full((height, width), ".", object)
    for plane in range(count):
        cells[pieces[:, :, plane] != 0] = MARKS[plane]
    lines = []
    if mask is not None and len(mask) == is_empty.size:
        if np.array_equal(np.asarray(mask) != 0, is_empty.ravel()):
            numbers = np.arange(is_empty.size).reshape(height, width)
            cells[is_empty] = numbers[is_empty].astype(str)
    elif mask is not None and len(mask) == width:
        lines.append("  ".join(f"{column:>2}" for column in range(width)))
    lines += ["  ".join(f"{cell:>2}" for cell in row) for row in cells]
    return "\n".join(lines)
