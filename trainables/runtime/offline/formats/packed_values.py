"""Columns of packed arrays, as RLlib writes those that it is asked to compress."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trainables.runtime.offline.bounds import Budget
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.packed_columns import PackedColumnError, unpack

_PACKED = "BCJNG"  # what the magic number of an LZ4 frame begins with, in letters


def unpacked(column: pa.Array, at: Place) -> np.ndarray:
    """Return the arrays of a column, `[N, *shape]`, without unpickling.

    Raises:
        DataError: if a value is missing, damaged, or no array of the same shape as the others.
    """
    rows: list[np.ndarray] = []
    values = column.to_pylist()
    budget = Budget(sum(len(value) for value in values if value is not None))
    for number, value in enumerate(values):
        if value is None:
            raise at.error("the value is missing (null)", number)
        try:
            text = value if isinstance(value, str) else value.decode("ascii")
            array = unpack(text, budget)
        except (UnicodeDecodeError, PackedColumnError) as error:
            raise at.error(_no_number(value, at, error), number) from None
        if not isinstance(array, np.ndarray):
            raise at.error("it is packed and holds more than one array", number)
        if rows and array.shape != rows[0].shape:
            raise at.error(f"it has shape {array.shape}, {rows[0].shape} before it", number)
        rows.append(array)
    return np.stack(rows) if rows else np.zeros((0,))


def _no_number(value: str | bytes, at: Place, error: Exception) -> str:
    if isinstance(value, bytes) or value.startswith(_PACKED):
        return f"it is bytes, or a text, but no packed array: {error}"
    column = f"df[{at.column!r}]"
    return (
        f"the value is the text {value[:40]!r}; allowed: numbers; in pandas: {column} = "
        f"{column}.astype('category').cat.codes, or of numbers in quotes pd.to_numeric({column})"
    )
