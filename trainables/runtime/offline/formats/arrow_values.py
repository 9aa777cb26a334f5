"""Arrow's columns as numpy rows, and back.

A number is a column of numbers, a vector a column of lists. An array of more axes, an image, is its
bytes: little-endian, in C order. Lists of so many numbers take 15 times as long.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from trainables.runtime.offline.bounds import MOST_BYTES
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.formats.packed_values import unpacked


def to_arrow(values: np.ndarray) -> pa.Array:
    """Return rows `[N, *shape]` as a column."""
    if values.ndim == 1:
        return pa.array(np.ascontiguousarray(values))
    if values.ndim == 2:
        offsets = np.arange(len(values) + 1, dtype=np.int64) * values.shape[1]
        flat = pa.array(np.ascontiguousarray(values).ravel())
        return pa.LargeListArray.from_arrays(offsets, flat).cast(pa.list_(flat.type))
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    size = values.dtype.itemsize * math.prod(values.shape[1:])
    buffer = pa.py_buffer(np.ascontiguousarray(little).reshape(-1).view(np.uint8))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(values), [None, buffer])


def from_bytes(column: pa.Array, dtype: np.dtype, shape: tuple[int, ...], at: Place) -> np.ndarray:
    """Return rows `[N, *shape]` of a column that has their bytes."""
    _check_no_nulls(column, at)
    size = dtype.itemsize * math.prod(shape)
    sizes = np.array(pc.binary_length(column), dtype=np.int64)
    if (sizes != size).any():
        row = int((sizes != size).argmax())
        raise at.error(f"{sizes[row]} bytes, not the {size} of {shape} x {dtype}", row)
    column = column.cast(pa.large_binary())
    begin = int(np.frombuffer(column.buffers()[1], np.int64)[column.offset])
    data = column.buffers()[2] if len(column) and size else b""
    flat = np.frombuffer(data, np.uint8)[begin : begin + len(column) * size]
    return flat.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(-1, *shape)


def from_arrow(column: pa.Array, at: Place) -> np.ndarray:
    """Return a column of numbers, of lists of them nested at will, or of packed arrays.

    Returns:
        Rows `[N, ...]`.

    Raises:
        DataError: if rows are of different shapes, are missing, or are no numbers.
    """
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    column = decoded(column, at)
    _check_no_nulls(column, at)
    if pt.is_fixed_size_list(column.type):
        return _nested(column.flatten(), len(column), column.type.list_size, at)
    if pt.is_list(column.type) or pt.is_large_list(column.type):
        widths = np.diff(np.array(column.offsets))
        width = int(widths[0]) if len(widths) else 0
        if (widths != width).any():
            row = int((widths != width).argmax())
            raise at.error(f"{widths[row]} values, {width} in the rows before it", row)
        return _nested(column.flatten(), len(column), width, at)
    if is_packed(column.type):
        return unpacked(column, at)
    if pt.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not (
        pt.is_integer(column.type) or pt.is_floating(column.type) or pt.is_boolean(column.type)
    ):
        raise at.error(f"values are of type {column.type}, not numbers")
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values


def decoded(column: pa.Array, at: Place) -> pa.Array:
    """Return a column with its values in each row, where rows have numbers of distinct ones."""
    if not pt.is_dictionary(column.type):
        return column
    check_repeated(column, at)
    return column.dictionary_decode()


def check_repeated(column: pa.Array, at: Place) -> None:
    """Raise if rows of a dictionary's values, texts or bytes, take more than is allowed together.

    Raises:
        DataError: naming the size and the bound.
    """
    if is_packed(column.type.value_type):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        total = pc.sum(lengths.take(column.indices)).as_py() or 0
        if total > MOST_BYTES:
            raise at.error(
                f"{len(column)} rows take {total:,} bytes; allowed: {MOST_BYTES:,} at once"
            )


def child(column: Any, name: str) -> pa.Array:
    """Return a field of a column of structs."""
    return pc.struct_field(column, name)


def _nested(flat: pa.Array, num_rows: int, width: int, at: Place) -> np.ndarray:
    values = from_arrow(flat, replace(at, per_row=at.per_row * max(width, 1)))
    return values.reshape(num_rows, width, *values.shape[1:])


def _check_no_nulls(column: pa.Array, at: Place) -> None:
    if column.null_count:
        row = int(np.array(pc.is_null(column)).argmax())
        raise at.error("the value is missing (null)", row)


def is_packed(type_: pa.DataType) -> bool:
    """Return whether values of a type are bytes, or texts: something else that is packed."""
    return any(
        is_so(type_)
        for is_so in (
            *(pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary),
            *(pt.is_string, pt.is_large_string),
        )
    )
