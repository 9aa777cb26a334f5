"""A trial's result rows, read from `result.json` (a JSON object a line) or `progress.csv`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import ResultsError as ResultsError
from analysis.names import COUNTERS, ENV_STEPS, ITERATION
from analysis.results.plain_rows import read_plain_rows

logger = logging.getLogger(__name__)

Row = dict[str, Any]
Config = dict[str, Any]


def read_rows(folder: Path) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Read everything that a trial reported.

    Args:
        folder: The trial's folder.

    Returns:
        A frame with one row per `training_iteration` in order and a column per metric (nested
        ones joined by `/`), without the config; and the nested config of each row. Both are empty
        where the trial reported nothing.
    """
    data = _content(folder / "result.json")
    if data.strip():
        plain = read_plain_rows(data, one_timeline)
        if plain is not None:
            return plain
    rows = _json_rows(folder / "result.json", data) or _csv_rows(folder / "progress.csv")
    rows = one_timeline([_cleaned(row) for row in rows])
    configs = [row.pop("config") for row in rows]
    if any(isinstance(value, dict) for row in rows for value in row.values()):
        return pd.json_normalize(rows, sep="/"), configs
    return pd.DataFrame(rows), configs


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; None where it is absent, torn or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def as_config(value: Any) -> Config:
    """Return a config that was read; empty where something else stands in its place."""
    return value if isinstance(value, dict) else {}


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn `{"model": {"lr": 1}}` into `{"model/lr": 1}`. An empty mapping stays a value.

    Args:
        nested: A config or a result, with mappings as values at any depth.
        prefix: What every key starts with, ending in `/` unless empty.
    """
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}/"))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _json_rows(path: Path, data: bytes) -> list[Row]:
    text = data.decode("utf-8", errors="replace")
    rows, torn = [], 0
    for line in filter(str.strip, text.split("\n")):
        row = parse_row(line)
        if row is None:
            torn += 1
        else:
            rows.append(row)
    if torn:
        logger.warning(
            "%s: left out %d torn line(s) (the run was killed while writing)", path, torn
        )
    return rows


def parse_row(line: str) -> Row | None:
    """Return the result in a line; None if the line holds no whole one."""
    # A kill tears the last line, and the resumed run appends its first row right behind it. So the
    # row may begin later in the line: at the first place from which the rest is a whole result.
    start = 0
    while start >= 0:
        try:
            row = json.loads(line[start:])
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and (start == 0 or ITERATION in row):
            return row
        start = line.find('{"', start + 1)
    return None


def _cleaned(row: Row) -> Row:
    """Return the row without what stands in a counter's place but is none, and with a config."""
    for name in COUNTERS:
        if name in row and not _is_number(row[name]):
            del row[name]
    row["config"] = as_config(row.get("config"))
    return row


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and -(2**63) < value < 2**63  # of which NaN is none, either


def _csv_rows(path: Path) -> list[Row]:
    try:
        frame = pd.read_csv(path, dtype={"trial_id": str}, on_bad_lines="skip")
    except (OSError, ValueError):
        return []
    rows: list[Row] = []
    for record in frame.to_dict(orient="records"):
        row: Row = {str(k): v for k, v in record.items() if not str(k).startswith("config/")}
        row["config"] = nest(
            {str(k)[7:]: v for k, v in record.items() if str(k).startswith("config/")}
        )
        rows.append(row)
    return rows


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `{"model/lr": 1}` into `{"model": {"lr": 1}}`."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, leaf = name.split("/")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[leaf] = value
    return nested


def one_timeline(rows: list[Row]) -> list[Row]:
    """Keep the rows of the run that counts.

    A resumed trial continues from its checkpoint and writes the iterations since then again (``[1,
    2, 3, 3, 4]``). A row therefore replaces every earlier one of the same or a later iteration:
    those belong to the run that was cut off. A clone of PBT goes on with its donor's counters, and
    where the two collected steps at different rates, only the environment steps go back.
    """
    kept: list[Row] = []
    for number, row in enumerate(rows, start=1):
        iteration = row.setdefault(ITERATION, number)
        while kept and (kept[-1][ITERATION] >= iteration or _steps_back(kept[-1], row)):
            kept.pop()
        kept.append(row)
    return kept


def _steps_back(before: Row, row: Row) -> bool:
    """Tell whether `row` comes, by environment steps, from an earlier point of training."""
    steps, now = before.get(ENV_STEPS), row.get(ENV_STEPS)
    if not isinstance(steps, int | float) or not isinstance(now, int | float):
        return False
    # As many steps with the same settings: nothing was sampled meanwhile, as in offline training.
    return steps > now or (steps == now and before.get("config") != row.get("config"))
