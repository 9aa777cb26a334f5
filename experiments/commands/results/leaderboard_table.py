"""The leaderboard as the terminal shows it: as many settings as fit, and no value cut."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.text import Text

from analysis.names import ENV_STEPS, ITERATION, SECONDS
from analysis.numbers import cell, clock
from experiments.fitted_columns import Column, fitting, short_names
from experiments.terminal import make_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult

_SETTING = "config/"
_GAP, _EDGES = 3, 4  # characters between two columns, and left and right of all, of `SIMPLE_HEAD`


class LeaderboardTable:
    """A table as wide as the console on which it is drawn allows.

    Settings go from the last on where there is no room; the line below names them.

    Args:
        frame: `analysis.leaderboard`'s.
        metric: The objective.
        num_trials: How many trials the sweep has; the frame may hold the best of them.
    """

    def __init__(self, frame: pd.DataFrame, metric: str, num_trials: int) -> None:
        self._frame = frame
        whole = len(frame) == num_trials
        which = f"all {num_trials}" if whole else f"the best {len(frame)} of {num_trials}"
        self._title = f"{metric}: {which} trials"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._columns()
        shown = fitting(columns, options.max_width - _EDGES, _GAP)
        table = make_table(self._title, self._rule())
        for column in shown:
            heading = "\n".join(column.lines) or column.heading
            table.add_column(heading, justify=column.justify, no_wrap=True, vertical="bottom")
        for number in range(len(self._frame)):
            table.add_row(*(Text(column.cells[number]) for column in shown))
        yield table
        kept = {column.key for column in shown}
        left_out = [column.heading for column in columns if column.key not in kept]
        if left_out:
            yield Text(f"... no room for {', '.join(left_out)}", style="dim")

    def _columns(self) -> list[Column]:
        frame = self._frame
        settings = [column for column in frame.columns if column.startswith(_SETTING)]
        names = short_names([column.removeprefix(_SETTING) for column in settings])
        return [
            self._column("rank", "#", cell),
            Column("trial_id", "trial", tuple(map(str, frame["trial_id"]))),
            self._column("last", "last", cell),
            self._column("best", "best", cell),
            *(self._column(key, heading, show) for key, heading, show in self._spent()),
            *(
                self._column(key, name, cell, rank)
                for rank, (key, name) in enumerate(zip(settings, names, strict=True))
            ),
        ]

    def _column(
        self, key: str, heading: str, show: Callable[[Any], str], rank: int | None = None
    ) -> Column:
        cells = tuple(show(value) for value in self._frame[key].tolist())
        return Column(key, heading, cells, justify="right", rank=rank)

    def _spent(self) -> list[tuple[str, str, Callable[[Any], str]]]:
        """What trials have used up: a trainable of one's own may count no environment steps."""
        if self._frame[ENV_STEPS].isna().all():
            return [(ITERATION, "iterations", cell), (SECONDS, "time", _duration)]
        return [(ENV_STEPS, "env steps", cell)]

    def _rule(self) -> str | None:
        """Return how trials of equal values are ordered, if there are any."""
        from analysis.ranking.order import RULE

        if self._frame["last"].dropna().is_unique:
            return None
        return RULE.replace("env steps", self._spent()[0][1])


def _duration(seconds: Any) -> str:
    known = isinstance(seconds, float) and math.isfinite(seconds)
    return clock(seconds) if known else cell(None)
