"""`TraceFile`: the parquet file of a trace, which is there only once it is whole."""

from __future__ import annotations

import json
import math
import platform
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from experiments.errors import ExperimentError


class TraceFile:
    """Written beside its place, and moved there in the end if no error ended it.

    Args:
        path: Where it is to be.

    Raises:
        ExperimentError: It cannot be written there.
    """

    def __init__(self, path: Path):
        self._path = path
        self._writer: Any = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._part.touch()
        except OSError as error:
            raise ExperimentError(f"{path}: cannot write there ({error.strerror})") from None

    @property
    def _part(self) -> Path:
        return self._path.with_name(f".{self._path.name}.part")

    @property
    def schema(self) -> Any:
        """The arrow schema; None before `begin`."""
        return None if self._writer is None else self._writer.schema

    def begin(self, fields: list[Any], about: dict[str, Any]) -> None:
        """Say what the columns are.

        Args:
            fields: Of `field_of`.
            about: What goes into the metadata, beside versions.
        """
        import pyarrow as pa
        from pyarrow import parquet

        text = json.dumps({**about, "versions": _versions()}, default=str)
        schema = pa.schema(fields, metadata={"tunescape": text})
        self._writer = parquet.ParquetWriter(self._part, schema, compression="zstd")

    def write(self, table: Any) -> None:
        """Write an arrow table of the schema as a row group."""
        assert self._writer is not None
        self._writer.write_table(table)

    def end(self, *, is_whole: bool) -> None:
        """Close the file; it is left only if it is whole, and anything was to be written."""
        if self._writer is not None:
            self._writer.close()
        if is_whole and self._writer is not None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)


def field_of(name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the arrow field of a column, which knows the shape of a row's value."""
    import pyarrow as pa

    kind = as_arrow(np.empty((0, *shape), dtype)).type
    return pa.field(name, kind, metadata={"shape": json.dumps(list(shape))})


def as_arrow(rows: np.ndarray) -> Any:
    """Return rows `[B, …]` as an arrow array; of several numbers each, as lists of fixed size."""
    import pyarrow as pa

    if rows.ndim == 1:
        return pa.array(rows)
    flat = rows.reshape(-1)
    if flat.dtype == bool:
        flat = flat.view(np.uint8)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), math.prod(rows.shape[1:]))


def _versions() -> dict[str, str]:
    """Return the versions of what a trace was made with."""
    import torch

    from trainables.registry import VERSION

    return {
        "tunescape": VERSION,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "gymnasium": gym.__version__,
        "numpy": np.__version__,
    }
