"""The live table of a sweep: a row for each trial, with the settings that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from experiments.progress_text import clock, count, short

MAX_COLUMNS = 5  # of hyperparameters

STATUS_STYLE = {
    "running": "cyan",
    "finished": "green",
    "pruned": "yellow",
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


def trial_table(
    rows: Iterable[TrialRow], settings: Iterable[str], metric: str, hidden: int
) -> Table:
    """Return the table.

    Args:
        rows: in the order in which they are shown.
        settings: flat keys of those that differ between the trials.
        metric: the objective.
        hidden: how many trials have no row.
    """
    columns = list(settings)[:MAX_COLUMNS]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("trial", "status", *columns):
        table.add_column(heading, no_wrap=True)
    for heading in ("iter", "env steps", metric, "steps/s", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, columns), style="bold green" if row.is_best else None)
    if hidden:
        table.add_row(f"... {hidden} more", style="dim")
    return table


def _cells(row: TrialRow, columns: Iterable[str]) -> list[str | Text]:
    return [
        row.trial_id,
        Text(row.status, style=STATUS_STYLE.get(row.status, "")),
        *(short(row.settings.get(column)) for column in columns),
        "" if row.iteration is None else str(row.iteration),
        count(row.env_steps),
        short(row.value),
        count(row.speed),
        "" if row.seconds is None else clock(row.seconds),
    ]
