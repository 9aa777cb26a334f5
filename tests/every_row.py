"""One test of a whole table: all rows are tried, and those that fail are told together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def check_rows(check: Callable[..., None], rows: Iterable[Any]) -> None:
    """Call a check with each row, a tuple as several arguments.

    Raises:
        AssertionError: It fails for some; with a line for each of them.
    """
    failing = []
    for row in rows:
        try:
            check(*(row if isinstance(row, tuple) else (row,)))
        except (Exception, pytest.fail.Exception) as error:
            first, *_ = [*str(error).splitlines(), ""]
            failing.append(f"{type(error).__name__}: {first}: {row}")
    if failing:
        raise AssertionError(f"{len(failing)} rows fail:\n" + "\n".join(failing))
