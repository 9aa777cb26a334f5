"""Columns of numbers in files: appended to in bounded memory, then mapped without a copy.

A column is an Arrow IPC file of one record batch with one column, so that other programs read it,
too. Its numbers lie there in one piece, as numpy has them: whoever maps it allocates nothing, and
all processes of a node share the pages. Flags are bytes, records binaries of a fixed size.
"""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class ColumnType(NamedTuple):
    """Shape and type of a row's value."""

    dtype: np.dtype
    shape: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * math.prod(self.shape)


class ColumnWriter:
    """Appends rows to a column; `close` makes the file that is mapped.

    Args:
        path: What the file will be called; until then the rows lie in `<path>.raw`.
        kind: What a row is.
    """

    def __init__(self, path: Path, kind: ColumnType):
        self._path, self._kind, self.num_rows = path, kind, 0
        self._raw = path.with_name(f"{path.name}.raw")
        self._file = self._raw.open("wb", buffering=2**20)

    def write(self, rows: np.ndarray) -> None:
        """Append rows `[M, *shape]`, which have the column's type."""
        if rows.dtype != self._kind.dtype or rows.shape[1:] != self._kind.shape:
            raise ValueError(f"rows of {rows.dtype} {rows.shape[1:]} in a column of {self._kind}")
        self._file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)
        self.num_rows += len(rows)

    def close(self) -> None:
        """Make the file, on the disk as a whole."""
        self._file.close()
        write_column(self._raw, self._path, self._kind, self.num_rows)
        self._raw.unlink()

    def discard(self) -> None:
        """Close what is open; files stay."""
        self._file.close()


def write_column(raw: Path, path: Path, kind: ColumnType, num_rows: int) -> None:
    """Make a column of a file that holds its numbers and nothing else; that stays."""
    import pyarrow as pa  # slow to import

    data = pa.memory_map(str(raw)).read_buffer() if raw.stat().st_size else pa.py_buffer(b"")
    value = _arrow_type(kind)
    count = 1 if pa.types.is_fixed_size_binary(value) else math.prod(kind.shape)
    array = pa.Array.from_buffers(value, num_rows * count, [None, data])
    if kind.shape and count:
        array = pa.FixedSizeListArray.from_arrays(array, count)
    batch = pa.record_batch([array], names=[path.stem])
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)
    with path.open("wb") as file:
        with pa.ipc.new_file(file, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())


def _arrow_type(kind: ColumnType) -> Any:
    import pyarrow as pa

    if kind.dtype.names is not None or kind.nbytes == 0:
        return pa.binary(kind.dtype.itemsize if kind.nbytes else 0)
    return pa.uint8() if kind.dtype == bool else pa.from_numpy_dtype(kind.dtype)


def map_column(path: Path, kind: ColumnType, num_rows: int, *, at_random: bool) -> np.ndarray:
    """Return a column as a read-only array that lies in its file, `[num_rows, *shape]`.

    Args:
        path: The file.
        kind: What a row is.
        num_rows: How many rows it must have.
        at_random: Whether to read single pages from the disk, not their neighbours, too: right if
            the memory cannot hold them all.

    Raises:
        ValueError: if the file is damaged or of something else.
    """
    import pyarrow as pa

    if not kind.nbytes:
        return np.zeros((num_rows, *kind.shape), kind.dtype)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        batch = pa.ipc.open_file(pa.py_buffer(mapped)).get_batch(0)
        data = batch.column(0).buffers()[-1]
    except (pa.ArrowException, OSError, IndexError) as error:
        raise ValueError(str(error)) from None
    if batch.num_rows != num_rows or data is None or data.size < num_rows * kind.nbytes:
        raise ValueError(f"{path.name} has {batch.num_rows} rows, not {num_rows}")
    if at_random and hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)
    count = num_rows * math.prod(kind.shape)
    return np.frombuffer(data, kind.dtype, count).reshape(num_rows, *kind.shape)
