"""Reading on past what cannot be read: to find all that is broken, not only the first row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from trainables.runtime.offline.episode import DataError

Report = Callable[[DataError], None]
"""Is told of rows, lines or files that are left out, instead of an error that ends reading."""

Part = TypeVar("Part")


@contextmanager
def reported(report: Report | None) -> Iterator[None]:
    """Leave out what raises a `DataError`, and report it; None: it is raised."""
    try:
        yield
    except DataError as error:
        if report is None:
            raise
        report(error)


def readable(
    read: Callable[[int, int], Part], num_rows: int, report: Report | None
) -> Iterator[Part]:
    """Yield rows as parts of which each can be read: all at once if nothing is broken.

    Args:
        read: Returns rows, from a first one until before another one.
        num_rows: How many there are.
        report: Is told of each row that cannot be read; None: the first one is an error.

    Raises:
        DataError: naming the first row that cannot be read.
    """
    yield from _readable(read, 0, num_rows, report)


def _readable(
    read: Callable[[int, int], Part], start: int, stop: int, report: Report | None
) -> Iterator[Part]:
    try:
        part = read(start, stop)
    except DataError as error:
        if report is None:
            raise
        if stop - start == 1:
            report(error)
            return
        middle = (start + stop) // 2
        yield from _readable(read, start, middle, report)
        yield from _readable(read, middle, stop, report)
    else:
        yield part
