"""Frames as files: Parquet keeps types and attributes, CSV is read everywhere."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.home import expanded
from analysis.results.rows import ResultsError

JSON_COLUMNS = "json_columns"
"""Attribute of a written frame: the columns whose values are JSON."""


def write_frame(frame: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a frame, whole or not at all, in place of an older file.

    A column of lists or mappings, or of values of several types, is written as JSON: `[64, 64]`,
    `"relu"`, `null`. In Parquet `attrs["json_columns"]` names those, and the frame's other
    attributes are kept (pandas reads them back); CSV keeps neither attributes nor types, and writes
    nothing for what is missing.

    Args:
        frame: A frame of any function here; it is not changed. Its index is left out.
        path: Ends in `.parquet` or `.csv`. Its folder is made.

    Returns:
        `path`.

    Raises:
        ResultsError: It ends otherwise, or it cannot be written.

    Example:
        >>> write_frame(trials_frame("runs/quickstart"), "trials.parquet")  # doctest: +SKIP
    """
    path = expanded(path)
    if path.suffix not in (".parquet", ".csv"):
        raise ResultsError(f"{path}: a frame is written to .parquet or .csv, not {path.suffix!r}")
    table = _with_json(frame)
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if path.suffix == ".csv":
                table.to_csv(partial, index=False)
            else:
                table.to_parquet(partial, index=False, engine="pyarrow")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error}") from None
    return path


def _with_json(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy whose columns are numbers, truths or texts."""
    table = frame.copy()
    mixed = [name for name in frame if _is_mixed(frame[name])]
    for name in mixed:
        # Not a list: pandas would make numbers of texts that look like one.
        table[name] = pd.Series([_text(v) for v in frame[name]], frame.index, dtype="str")
    # Attributes go into the file as JSON too.
    attrs = {**frame.attrs, JSON_COLUMNS: mixed} if mixed else frame.attrs
    table.attrs = json.loads(json.dumps(attrs, default=str))
    return table


def _is_mixed(column: pd.Series) -> bool:
    if column.dtype != object:
        return False
    kinds = {_kind(value) for value in column} - {None}
    return len(kinds) > 1 or not kinds <= {bool, float, str}


def _kind(value: Any) -> type | None:
    """Return what a value is for a file; None for one that is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return type(value)


def _text(value: Any) -> str | None:
    return None if _kind(value) is None else json.dumps(value, default=str)
