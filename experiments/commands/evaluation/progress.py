"""Progress of an evaluation on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainables.runtime.evaluation.watch import Outcome, Watch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class _Shown(Watch):
    def __init__(self, progress: Progress, total: int):
        self._progress = progress
        self._task = progress.add_task("episodes", total=total, mean="")
        self._num, self._sum = 0, 0.0

    def ended(self, slot: int, outcome: Outcome) -> None:
        self._num, self._sum = self._num + 1, self._sum + outcome.total
        mean = f"return {self._sum / self._num:.2f} so far"
        self._progress.update(self._task, advance=1, mean=mean)


@contextmanager
def shown_progress(total: int, console: Console) -> Iterator[Watch]:
    """A bar that counts episodes; nothing where there is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[mean]}"),
    )
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        yield _Shown(progress, total)
