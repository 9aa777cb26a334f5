"""Result rows that are flat JSON objects, read as columns by Arrow.

Almost every `result.json` is such a file, and so is read four times as fast as line by line.
Whatever is not (torn or nested rows, lists, values whose type changes) is left to
`analysis.results.rows`, which reads everything and gives the same frame (but for integers beyond 64
bits: floats here).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.names import COUNTERS, ENV_STEPS, ITERATION

if TYPE_CHECKING:
    import pyarrow as pa

Config = dict[str, Any]
Timeline = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]

_CONFIG = '"config": '
_NO_CONFIG = b'"config":null'
"""No config is as long as this: see `_take_configs`."""
_ROW = "row"


def read_plain_rows(data: bytes, timeline: Timeline) -> tuple[pd.DataFrame, list[Config]] | None:
    """Read a `result.json`.

    Args:
        data: The file's content.
        timeline: A function that says which rows count: given `training_iteration`, environment
            steps and `config` of all rows, it returns those to keep.

    Returns:
        A column per metric, and the config of each row; rows that follow each other and have the
        same one share it. None if some row is not a flat object, or a value's type is not always
        the same.
    """
    taken = _take_configs(data)
    if taken is None:
        return None
    rest, configs = taken
    table = _read(rest, len(configs))
    if table is None:
        return None
    kept = _kept(table, configs, timeline)
    if len(kept) < len(configs):  # once more: what does not count has no say in a column's type
        lines = rest.split(b"\n")
        table = _read(b"\n".join(lines[row] for row in kept), len(kept))
        if table is None:
            return None
        configs = [configs[row] for row in kept]
    return table.to_pandas(use_threads=False), configs


def _take_configs(data: bytes) -> tuple[bytes, list[Config]] | None:
    """Return the rows without their configs, the larger part of a row, and each one's config.

    Only a config that differs from that of the row before is parsed.
    """
    end = len(data) - data.endswith(b"\n")
    count = data.count(b"\n", 0, end) + 1
    last = _config_of(data[data.rfind(b"\n", 0, end) + 1 :])
    if last is None:
        return None
    text, config = last
    if not text and b'"config"' not in data:
        return data, [config] * count
    rest = data.replace(text, _NO_CONFIG) if text else data
    if len(data) - len(rest) == count * (len(text) - len(_NO_CONFIG)):  # it was in every row
        return rest, [config] * count
    lines, configs = data[:end].split(b"\n"), []
    for row, line in enumerate(lines):
        if not text or text not in line:
            found = _config_of(line)
            if found is None:
                return None
            text, config = found
        lines[row] = line.replace(text, _NO_CONFIG) if text else line
        configs.append(config)
    return b"\n".join(lines), configs


def _config_of(line: bytes) -> tuple[bytes, Config] | None:
    """Return a row's config with its key as it stands there, and what it says; empty if none."""
    try:
        row = line.decode()
        start = row.find(_CONFIG + "{")
        if start < 0:
            return None if '"config"' in row else (b"", {})
        config, end = json.JSONDecoder().raw_decode(row, start + len(_CONFIG))
    except ValueError:
        return None
    return row[start:end].encode(), config


def _read(data: bytes, count: int) -> pa.Table | None:
    """Return the rows as a table; None unless all `count` of them are flat and of stable types."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    # Arrow ends the process with a fault where a row is `null` instead of an object.
    ends = data.count(b"}\n") + data.endswith(b"}")
    if not data.startswith(b"{") or not data.count(b"\n{") + 1 == ends == count:
        return None
    options = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(data), read_options=options)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != count:  # a blank line, or two rows in one
        return None
    if "config" in table.column_names:
        if table.schema.field("config").type != pa.null():
            return None  # it is something else than a mapping
        table = table.drop_columns(["config"])
    if ITERATION not in table.column_names or table[ITERATION].null_count:
        return None
    if any(table[name].type == pa.string() for name in COUNTERS if name in table.column_names):
        return None
    if table[ITERATION].type != pa.int64():
        return None
    return table if all(_is_plain(column) for column in table.columns) else None


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Tell whether pandas would make the same of the values, had it read them one by one."""
    import pyarrow as pa

    if column.type == pa.bool_():
        return not column.null_count
    return column.type in (pa.int64(), pa.float64(), pa.string())


def _kept(table: pa.Table, configs: list[Config], timeline: Timeline) -> Sequence[int]:
    names = [name for name in (ITERATION, ENV_STEPS) if name in table.column_names]
    if all(_grows(table[name]) for name in names):  # as almost always: no row was taken back
        return range(table.num_rows)
    rows = table.select(names).to_pylist()
    for number, (row, config) in enumerate(zip(rows, configs, strict=True)):
        row.update({_ROW: number, "config": config})
    return [row[_ROW] for row in timeline(rows)]


def _grows(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    if column.null_count or column.type not in (pa.int64(), pa.float64()):
        return False
    return bool((np.diff(column.to_numpy()) > 0).all())
