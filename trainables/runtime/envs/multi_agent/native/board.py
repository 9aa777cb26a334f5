"""Boards on which stones in a row win: their rows, and where a move's stone comes to lie."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


@lru_cache
def rows_of(rows: int, columns: int, length: int) -> np.ndarray:
    """Return the cells of each row of `length` on a board, in all four directions.

    Returns:
        `[rows * columns, L]`, float32: 1 where the cell is in row l of L. Read-only.
    """
    cells = np.arange(rows * columns).reshape(rows, columns)
    found = []
    for down, right in _DIRECTIONS:
        for row in range(rows - down * (length - 1)):
            for column in range(columns):
                end = column + right * (length - 1)
                if 0 <= end < columns:
                    found.append([cells[row + down * k, column + right * k] for k in range(length)])
    table = np.zeros((cells.size, len(found)), np.float32)
    for index, row_cells in enumerate(found):
        table[row_cells, index] = 1
    table.setflags(write=False)
    return table


def has_row(stones: np.ndarray, length: int, table: np.ndarray) -> np.ndarray:
    """Tell which boards have a whole row of a player's stones.

    Args:
        stones: The player's, `[…, cells]`, bool.
        length: Stones in a row.
        table: `rows_of` the board.

    Returns:
        `[…]`, bool.
    """
    in_rows: np.ndarray = stones.astype(np.float32) @ table
    return np.asarray((in_rows == length).any(-1))


def with_stone(boards: np.ndarray, cells: np.ndarray, stone: Any) -> np.ndarray:
    """Return boards after each of some moves.

    Args:
        boards: `[B, cells]`.
        cells: Where each move's stone lies, `[B, moves]`.
        stone: What stands there then.

    Returns:
        `[B, moves, cells]`, of the boards' dtype.
    """
    after = np.repeat(boards[:, None], cells.shape[1], 1)
    np.put_along_axis(after, cells[..., None], stone, 2)
    return after


def landing_cells(filled: np.ndarray, drops: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return for each move on each board the cell that its stone comes to lie in.

    Args:
        filled: Cells with stones, `[B, rows, columns]`, bool.
        drops: A move is a column, in which the stone drops on those that are there; else a cell.

    Returns:
        Cells `[B, moves]`, int64, row by row from the top left; and which moves are legal,
        `[B, moves]`, bool. The cell of an illegal move means nothing.
    """
    boards, rows, columns = filled.shape
    if not drops:
        free = ~filled.reshape(boards, -1)
        return np.broadcast_to(np.arange(free.shape[1]), free.shape), free
    depth = rows - 1 - filled.sum(1)  # of the lowest free cell, `[B, columns]`
    return depth.clip(0) * columns + np.arange(columns), depth >= 0
