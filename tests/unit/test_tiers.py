"""The suite's own tiers: what the default one leaves to `full` has something that stands for it."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden_texts import check_golden
from tiers import HERE, covering, rarely, without_stand_in


def by_default(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [row.values for row in rows if not row.marks]


def test_every_pair_runs_by_default_and_every_combination_in_full() -> None:
    axes = ("abc", [1, 2, 3, 4], [True, False])
    rows = covering(*axes)
    assert [row.values for row in rows] == list(itertools.product(*axes))
    default = by_default(rows)
    assert len(default) == 12  # no fewer: the two longest axes have as many pairs
    for first, second in itertools.combinations(range(3), 2):
        pairs = {(row[first], row[second]) for row in default}
        assert pairs == set(itertools.product(axes[first], axes[second]))


def test_each_value_runs_by_default_where_pairs_are_too_many() -> None:
    default = by_default(covering("abc", [1, 2, 3, 4], strength=1))
    assert len(default) == 4
    assert {row[0] for row in default} == set("abc") and {row[1] for row in default} == {1, 2, 3, 4}


def test_cases_that_run_rarely() -> None:
    first, second = rarely(["PPO", "SAC"], default=["PPO"])
    assert first == "PPO" and second.values == ("SAC",) and second.marks
    with pytest.raises(AssertionError, match="DQN"):
        rarely(["PPO", "SAC"], default=["DQN"])


def item(name: str, *marks: pytest.Mark, file: str = "unit/test_a.py") -> Any:
    """A collected test, as far as tiers look at it."""
    marked = {mark.name: mark for mark in marks}
    return SimpleNamespace(
        path=HERE / file, name=name, originalname=name, get_closest_marker=marked.get
    )


def full(*stand_in: str) -> pytest.Mark:
    return pytest.Mark("full", stand_in, {}, _ispytest=True)


def test_a_test_of_the_default_tier_stands_for_each_later_one() -> None:
    own_rows = [item("test_a"), item("test_a", full())]
    another = [*own_rows, item("test_b", full("test_a"))]
    elsewhere = [item("test_c", full("unit/test_tiers.py::test_cases_that_run_rarely"))]
    slow = [item("test_d", full("test_none"), pytest.mark.slow.mark)]
    for good in (own_rows, another, elsewhere, slow):
        assert without_stand_in(good) == []


@pytest.mark.parametrize(
    ("later", "name"),
    [
        (item("test_b", full()), "test_b"),
        (item("test_b", full("test_none")), "test_none"),
        (item("test_b", full("unit/test_tiers.py::test_none")), "test_none"),
        (item("test_b", full("unit/test_none.py::test_a")), "test_a"),
    ],
)
def test_one_without_is_named(later: Any, name: str) -> None:
    (problem,) = without_stand_in([item("test_a"), later])
    assert problem.startswith(f"unit/test_a.py::test_b: {name} of test_")


def test_texts_that_differ_are_shown_and_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("golden_texts.FOLDER", tmp_path / "golden")
    with pytest.raises(AssertionError, match="a case"):
        check_golden("texts", {"a case": "as it is"}, write=False)
    check_golden("texts", {"a case": "as it is"}, write=True)
    check_golden("texts", {"a case": "as it is"}, write=False)
    with pytest.raises(AssertionError, match=r"-as it is\n\+as it was"):
        check_golden("texts", {"a case": "as it was"}, write=False)
