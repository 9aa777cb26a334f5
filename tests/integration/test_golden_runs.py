"""Short training runs are what they were, to the bit: see `golden_runs.py`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from golden_runs import (
    CHEAP,
    FILE,
    all_runs,
    chosen,
    differences,
    digests_of,
    other_arithmetic,
    read,
)

REST = [name for name in chosen(None) if name not in CHEAP]


def check(names: Iterable[str]) -> None:
    """Fail with all runs that differ, and what of them does."""
    content = read(FILE)
    if why := other_arithmetic(content):
        pytest.skip(f"{why} (compare with a file of your own: python -m tests.golden_runs)")
    runs = all_runs()
    found = {name: differences(content["runs"][name], digests_of(runs[name])) for name in names}
    assert {name: parts for name, parts in found.items() if parts} == {}


def test_runs_of_each_kind_are_what_they_were() -> None:
    check(CHEAP)


@pytest.mark.full("test_runs_of_each_kind_are_what_they_were")
def test_all_runs_are_what_they_were() -> None:
    check(REST)


def test_the_file_has_all_runs_and_no_other() -> None:
    assert set(chosen(None)) <= set(read(FILE)["runs"]) <= set(all_runs())
