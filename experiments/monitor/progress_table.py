"""The live table of a sweep: a row for each trial, as many columns as fit, and none of them cut.

The settings that differ come right after the trial, then what was reached. On a narrow terminal
headings are folded, the widest first; then columns go: the host, steps/s, iterations, time, env
steps, and then settings from the last on. Trial, status and objective always stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from analysis.names import HOST
from analysis.numbers import clock, large, short
from experiments.fitted_columns import Column, fitting, short_names

MAX_SETTINGS = 8  # columns of settings, however wide the terminal is
_LAST_KEPT = ("env steps", "time", "iter", "steps/s", HOST)  # the last one is the first to go
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
        trial_id: The trial's name.
        status: A key of `STATUS_STYLE`.
        settings: The settings by flat key, such as `model/fcnet_hiddens`.
        iteration: The last iteration.
        env_steps: The env steps that it has sampled.
        value: The last value of the objective.
        speed: Env steps per second.
        seconds: The seconds that it has trained.
        is_best: Whether it leads.
        host: Which of the sweep's processes trained it last; None where it has one of its own.
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
    host: int | None = None


class TrialTable:
    """The table, as wide as the console on which it is drawn allows.

    Args:
        rows: The rows in the order in which they are shown.
        settings: Flat keys of the settings that differ between the trials, the most telling first.
        metric: The objective.
        hidden: How many trials have no row.
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

    def _columns(self) -> list[Column]:
        rows, headings = self._rows, short_names(self._settings)
        # A trainable of one's own may report no environment steps.
        steps = any(row.env_steps is not None for row in rows)
        hosted = any(row.host is not None for row in rows)
        counted = steps or all(row.iteration is None for row in rows)
        return [
            Column("trial", "trial", tuple(row.trial_id for row in rows)),
            Column("status", "status", tuple(row.status for row in rows)),
            *(
                Column(
                    key,
                    heading,
                    tuple(_setting(row, key) for row in rows),
                    rank=number - MAX_SETTINGS,
                )
                for number, (key, heading) in enumerate(zip(self._settings, headings, strict=True))
            ),
            Column(
                self._metric,
                self._metric.rpartition("/")[2],
                tuple(short(row.value) for row in rows),
                justify="right",
            ).folded(_OBJECTIVE_WIDTH),
            *(
                Column(key, key, tuple(cells), justify="right", rank=1 + _LAST_KEPT.index(key))
                for key, cells in (
                    ("env steps", (_or_empty(row.env_steps, large) for row in rows)),
                    ("iter", (_or_empty(row.iteration, str) for row in rows)),
                    ("steps/s", (_or_empty(row.speed, large) for row in rows)),
                    ("time", (_or_empty(row.seconds, clock) for row in rows)),
                    (HOST, (_or_empty(row.host, str) for row in rows)),
                )
                if (hosted if key == HOST else counted or key in ("iter", "time"))
            ),
        ]


def _setting(row: TrialRow, key: str) -> str:
    """Three digits; empty for a setting that the trial does not have."""
    if key not in row.settings:
        return ""
    value = row.settings[key]
    return "None" if value is None else short(value, digits=3)


def _or_empty(value: Any, shown: Callable[[Any], str]) -> str:
    return "" if value is None else shown(value)
