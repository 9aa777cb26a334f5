"""The tiers of the suite: the default one, `full` and `slow`; README.md beside this says when.

`@pytest.mark.full("test_x")`, or `("unit/core/test_y.py::test_x")` of another file, names the test
of the default tier that stands for it. Rows of a test need name none if others are default.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def covering(*axes: Sequence[Any], strength: int = 2) -> list[Any]:
    """Every combination of some values: the default tier has each pair once, `full` the rest.

    Args:
        *axes: The values of each argument.
        strength: 1: each value once is enough for the default tier.

    Returns:
        What `pytest.mark.parametrize` takes, one argument an axis, in the order of the product.
    """
    rows = list(itertools.product(*(range(len(axis)) for axis in axes)))
    places = list(itertools.combinations(range(len(axes)), strength))
    tuples = {row: {(place, tuple(row[i] for i in place)) for place in places} for row in rows}
    missing = set().union(*tuples.values())
    chosen = set()
    while missing:
        best = max(rows, key=lambda row: len(tuples[row] & missing))
        missing -= tuples[best]
        chosen.add(best)
    return [
        pytest.param(
            *(axis[i] for axis, i in zip(axes, row, strict=True)),
            marks=[] if row in chosen else pytest.mark.full,
        )
        for row in rows
    ]


def rarely(cases: Sequence[Any], default: Sequence[Any]) -> list[Any]:
    """Cases of one argument, of which the default tier runs some and `full` the others."""
    unknown = [case for case in default if case not in cases]
    assert not unknown, f"no such cases: {unknown}"
    later = pytest.mark.full
    return [case if case in default else pytest.param(case, marks=later) for case in cases]


def without_stand_in(items: Sequence[pytest.Item]) -> list[str]:
    """What is wrong with the tests that stand for tests marked `full`, a line each."""
    collected = {item.path for item in items}
    default = {_function(item) for item in items if not is_later(item)}
    problems = set()
    for item in items:
        marker = item.get_closest_marker("full")
        if marker is None or item.get_closest_marker("slow"):
            continue
        path, name = _function(item)
        if marker.args:
            file, _, name = marker.args[0].rpartition("::")
            path = HERE / file if file else path
        stands = (path, name) in default
        if path not in collected and path.is_file():
            text = path.read_text(encoding="utf-8")
            stands = re.search(rf"^def {name}\(", text, re.MULTILINE) is not None
        if not stands:
            of = f"{item.path.relative_to(HERE)}::{_function(item)[1]}"
            problems.add(f"{of}: {name} of {path.name} is no test of the default tier")
    return sorted(problems)


def _function(item: pytest.Item) -> tuple[Path, str]:
    return item.path, getattr(item, "originalname", None) or item.name


def is_later(item: pytest.Item) -> bool:
    """Whether the default tier is without a test."""
    return bool(item.get_closest_marker("full") or item.get_closest_marker("slow"))
