"""The live table of a sweep: a row for each trial, as many columns as fit, and none of them cut.

The settings that differ come right after the trial, then what was reached. On a narrow terminal
headings are folded, the widest first; then columns go: steps/s, iterations, time, env steps, and
then settings from the last on. Trial, status and objective always stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from experiments.progress_text import clock, large, short

MAX_SETTINGS = 8  # columns of settings, however wide the terminal is
_LAST_KEPT = ("env steps", "time", "iter", "steps/s")  # the last one is the first to go
_GAP = 2  # between two columns
_MOST_LINES = 3  # of a heading
_OBJECTIVE_WIDTH = 12  # its heading's, in characters, if it can be folded to that

STATUS_STYLE = {
    "running": "cyan",
    "finished": "green",
    "pruned": "yellow",
    "interrupted": "yellow",
    "failed": "bold red",
    "pending": "dim",
    "paused": "dim",
}


@dataclass(frozen=True)
class TrialRow:
    """What the table shows of a trial; None where nothing is known yet.

    Attributes:
        trial_id: its name.
        status: a key of `STATUS_STYLE`.
        settings: by flat key, such as `model/fcnet_hiddens`.
        iteration: its last one.
        env_steps: that it has sampled.
        value: its objective.
        speed: env steps per second.
        seconds: that it has trained.
        is_best: whether it leads.
    """

    trial_id: str
    status: str
    settings: Mapping[str, Any]
    iteration: int | None
    env_steps: float | None
    value: Any
    speed: float | None
    seconds: float | None
    is_best: bool


@dataclass(frozen=True)
class _Column:
    """A column; the one with the highest rank goes first, one without never does."""

    key: str
    heading: str
    cells: tuple[str, ...]
    justify: Literal["left", "right"] = "left"
    rank: int | None = None
    lines: tuple[str, ...] = ()  # of the heading, if it is folded

    @property
    def width(self) -> int:
        return max(map(cell_len, (*(self.lines or [self.heading]), *self.cells)))

    def folded(self, most: int = 0) -> _Column:
        """The same with a heading of several lines, none wider than the cells or `most`."""
        room = max([most, *map(cell_len, self.cells)])
        return replace(self, lines=tuple(fold(self.heading, room)))


class TrialTable:
    """The table, as wide as the console on which it is drawn allows.

    Args:
        rows: in the order in which they are shown.
        settings: flat keys of those that differ between the trials, the most telling first.
        metric: the objective.
        hidden: how many trials have no row.
    """

    def __init__(
        self, rows: Sequence[TrialRow], settings: Iterable[str], metric: str, hidden: int
    ) -> None:
        self._rows = rows
        keys = list(settings)
        self._settings, self._further = keys[:MAX_SETTINGS], keys[MAX_SETTINGS:]
        self._metric = metric
        self._hidden = hidden

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = fitting(self._columns(), options.max_width)
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in columns:
            table.add_column(
                "\n".join(column.lines) or column.heading,
                justify=column.justify,
                no_wrap=True,
                vertical="bottom",
            )
        for number, row in enumerate(self._rows):
            cells: list[str | Text] = [column.cells[number] for column in columns]
            cells[1] = Text(row.status, style=STATUS_STYLE.get(row.status, ""))
            table.add_row(*cells, style="bold green" if row.is_best else None)
        yield table
        shown = {column.key for column in columns}
        left_out = [key for key in self._settings if key not in shown] + self._further
        if self._hidden or left_out:
            parts = [f"{self._hidden} more trials"] if self._hidden else []
            parts += [f"no room for {', '.join(left_out)}"] if left_out else []
            yield Text(f"... {'; '.join(parts)}", style="dim")

    def _columns(self) -> list[_Column]:
        rows, headings = self._rows, short_names(self._settings)
        # A trainable of one's own may report no environment steps.
        steps = any(row.env_steps is not None for row in rows)
        counted = steps or all(row.iteration is None for row in rows)
        return [
            _Column("trial", "trial", tuple(row.trial_id for row in rows)),
            _Column("status", "status", tuple(row.status for row in rows)),
            *(
                _Column(
                    key,
                    heading,
                    tuple(_setting(row, key) for row in rows),
                    rank=number - MAX_SETTINGS,
                )
                for number, (key, heading) in enumerate(zip(self._settings, headings, strict=True))
            ),
            _Column(
                self._metric,
                self._metric.rpartition("/")[2],
                tuple(short(row.value) for row in rows),
                justify="right",
            ).folded(_OBJECTIVE_WIDTH),
            *(
                _Column(key, key, tuple(cells), justify="right", rank=1 + _LAST_KEPT.index(key))
                for key, cells in (
                    ("env steps", (_or_empty(row.env_steps, large) for row in rows)),
                    ("iter", (_or_empty(row.iteration, str) for row in rows)),
                    ("steps/s", (_or_empty(row.speed, large) for row in rows)),
                    ("time", (_or_empty(row.seconds, clock) for row in rows)),
                )
                if counted or key in ("iter", "time")
            ),
        ]


def fitting(columns: list[_Column], width: int) -> list[_Column]:
    """The columns that fit side by side, with folded headings if they have to be."""
    columns = list(columns)
    while _total(columns) > width:
        gains = [column.width - column.folded().width for column in columns]
        if max(gains) > 0:
            most = gains.index(max(gains))
            columns[most] = columns[most].folded()
            continue
        dispensable = [column for column in columns if column.rank is not None]
        if not dispensable:
            break
        columns.remove(max(dispensable, key=lambda column: column.rank or 0))
    return columns


def fold(heading: str, width: int) -> list[str]:
    """A heading in as many lines as it has at a width, at most three: then they are wider.

    It is broken after spaces, slashes and underscores only, and not before the s of "steps/s".
    """
    parts = re.findall(r".*?(?:[ _]|/(?=..)|$)", heading)
    width = max([width, *(len(part.rstrip(" ")) for part in parts)])
    while True:
        lines = [""]
        for part in parts:
            if lines[-1] and len((lines[-1] + part).rstrip(" ")) > width:
                lines.append("")
            lines[-1] += part
        if len(lines) <= _MOST_LINES:
            return [line.rstrip(" ") for line in lines]
        width += 1


def short_names(keys: Sequence[str]) -> list[str]:
    """The last part of each key, or as many parts as tell it from the others."""

    def tail(key: str, parts: int) -> str:
        return "/".join(key.split("/")[-parts:])

    names = []
    for key in keys:
        parts = 1
        while parts < len(key.split("/")) and any(
            other != key and tail(other, parts) == tail(key, parts) for other in keys
        ):
            parts += 1
        names.append(tail(key, parts))
    return names


def _total(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _setting(row: TrialRow, key: str) -> str:
    """Three digits; empty for a setting that the trial does not have."""
    if key not in row.settings:
        return ""
    value = row.settings[key]
    return "None" if value is None else short(value, digits=3)


def _or_empty(value: Any, shown: Callable[[Any], str]) -> str:
    return "" if value is None else shown(value)
