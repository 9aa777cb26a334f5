"""Lines of a JSON file: a batch of steps each, as RLlib writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from trainables.runtime.offline.bounds import MOST_LINE_BYTES, Budget, check_declared
from trainables.runtime.offline.broken_rows import Report, reported
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.formats.step_columns import NAMES, StepColumns
from trainables.runtime.offline.packed_columns import PackedColumnError, unpack

_LEAST_LINE_BYTES = 256  # what an empty line counts as: it takes its time
_AGENTS = {*NAMES["agent_id"]}
_TREES = ("obs", "action", "next_obs")  # the number of their rows depends on their space
_FLAT = ("reward", "terminated", "truncated", "done", "logp", "episode_id", "t", "agent_id")


@dataclass(frozen=True)
class Line:
    """A batch of steps.

    Attributes:
        at: Where its first row stands: rows are counted within the line.
        columns: Which column is what.
        values: The columns: lists of a value a row, of which those of nested spaces are objects
            or lists of them; packed ones are unpacked.
        num_rows: Rows in it.
        policy: The policy that acted; empty: the line does not tell.
    """

    at: Place
    columns: StepColumns
    values: dict[str, Any]
    num_rows: int
    policy: str


def lines_of(opened: Any, name: str, report: Report | None = None) -> Iterator[Line]:
    """Yield the lines of a file; empty ones, and those without rows, are passed over.

    What several policies did stands in one line of text, and comes as a line for each.

    Args:
        opened: The file.
        name: The file's name, for messages.
        report: Is told of lines that are none, which are then left out.

    Raises:
        DataError: naming the line that is none.
    """
    file_size = opened.size()
    if name.lower().endswith(".gz"):
        opened = pa.CompressedInputStream(opened, "gzip")
    stream, number, size = io.BufferedReader(opened), 0, 0
    try:
        while text := stream.readline(MOST_LINE_BYTES + 1):
            number += 1
            where = f"{name}, line {number}"
            if len(text) > MOST_LINE_BYTES:
                raise DataError(
                    f"{where}: it has more than {MOST_LINE_BYTES:,} bytes, the most allowed: "
                    "shorter batches of steps, or packed columns"
                )
            size += max(len(text), _LEAST_LINE_BYTES)
            check_declared(size, file_size, where)
            if not text.isspace():
                found: list[Line] = []
                with reported(report):
                    found = [_line(*batch, where) for batch in _parsed(text, where)]
                yield from (line for line in found if line.num_rows)
    except OSError as error:
        raise DataError(f"{name}, line {number + 1}: cannot be read: {error}") from None


def _parsed(text: bytes, where: str) -> list[tuple[dict[str, Any], str]]:
    """Return batches, each with the policy that it is of."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "" if text.endswith(b"\n") else "; a writer that is killed leaves such a last line"
        raise DataError(f"{where}: it is no JSON: {error}{hint}") from None
    if not isinstance(parsed, dict) or "type" not in parsed:
        raise DataError(f"{where}: it is no object with a 'type'; allowed: a batch of steps a line")
    kind = parsed.pop("type")
    if kind == "SampleBatch":
        return [(parsed, "")]
    if kind != "MultiAgentBatch":
        raise DataError(
            f"{where}: type {kind!r} is not known; allowed: 'SampleBatch', 'MultiAgentBatch'"
        )
    batches = parsed.get("policy_batches")
    if not isinstance(batches, dict) or not all(isinstance(b, dict) for b in batches.values()):
        raise DataError(f"{where}: 'policy_batches' is no object of batches by policy")
    if len(batches) > 1 and not all(_AGENTS & batch.keys() for batch in batches.values()):
        raise DataError(
            f"{where}: it has the policies {sorted(batches)}, and not all of them have a column "
            "'agent_index' that tells whose rows are whose; allowed: one policy, or that column"
        )
    return [(batch, policy) for policy, batch in batches.items()]


def _line(values: dict[str, Any], policy: str, where: str) -> Line:
    at = Place(where, 0)
    columns = StepColumns(list(values), where)
    budget = Budget(sum(len(value) for value in values.values() if isinstance(value, str)))
    flat = [columns[ours] for ours in _FLAT if ours in columns]
    for name in (*flat, *(name for ours in _TREES for name in columns.leaf_columns(ours))):
        values[name] = _unpacked(values[name], at.of(name), budget)
    lengths = {name: num_rows(values[name], at.of(name)) for name in flat}
    if len(set(lengths.values())) > 1:
        raise at.error(f"the columns have different numbers of rows: {lengths}")
    return Line(at, columns, values, lengths[columns["reward"]], policy)


def num_rows(value: Any, at: Place) -> int:
    """Return the rows of a column, or of a leaf.

    Raises:
        DataError: if it has none.
    """
    if not isinstance(value, (list, np.ndarray)) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        raise at.error(f"it is of type {type(value).__name__}, no list with a value for each row")
    return len(value)


def _unpacked(value: Any, at: Place, budget: Budget) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return unpack(value, budget)
    except PackedColumnError as error:
        raise at.error(str(error)) from None
