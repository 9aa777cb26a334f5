"""Declaring and checking single settings."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from every_row import check_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from ray import tune
from refusals import Golden, refusals

from trainables.core.config.settings import (
    Settings,
    contains_search_domain,
    is_search_domain,
    setting,
)
from trainables.core.errors import ConfigError


@dataclass
class Example(Settings):
    """One setting of each kind."""

    number: float = setting(0.5, "training", "a number", ge=0, lt=1)
    count: int = setting(3, "training", "a count", ge=1)
    maybe: int | None = setting(None, "env_runners", "a count or none", gt=0)
    flag: bool = setting(False, "debugging", "a flag")
    name: str = setting("a", "debugging", "a name", choices=("a", "b"))
    rate: float | list[Any] = setting(0.1, "training", "a rate", gt=0, le=2, schedule=True)
    widths: list[int] = setting([64, 64], "training", "widths")
    options: dict[str, Any] = setting({}, "training", "options")
    literal: Literal["x", "y"] = setting("x", "training", "a literal")
    unbounded: float = setting(0.0, "training", "any number")


@dataclass
class NestedExample(Settings):
    """Given as a dict inside another setting."""

    what: ClassVar[str] = "option"
    width: int = setting(1, "options", "a width")


def check(name: str, value: Any) -> Any:
    return Example.check({name: value})[name]


def test_accepted() -> None:
    def check_row(name: str, value: Any, kept: Any) -> None:
        result = check(name, value)
        assert result == kept
        assert type(result) is type(kept)

    rows = [
        ("number", 0, 0),
        ("number", 0.999, 0.999),
        ("number", np.float32(0.5), 0.5),
        ("count", 1, 1),
        ("count", 64.0, 64),  # quantised search domains give floats
        ("count", np.int64(5), 5),
        ("count", np.float64(5.0), 5),
        ("maybe", None, None),
        ("flag", True, True),
        ("flag", np.bool_(True), True),
        ("name", "b", "b"),
        ("name", np.str_("b"), "b"),
        ("widths", [np.int64(8)], [8]),
        ("options", {"a": {"b": np.float64(1.5)}}, {"a": {"b": 1.5}}),
        ("literal", "y", "y"),
        ("unbounded", -5, -5),
        ("rate", [[0, 0.5], [10, 0.1]], [[0, 0.5], [10, 0.1]]),
        ("rate", ((0, 0.5), (np.int64(10), np.float32(0.25))), [[0, 0.5], [10, 0.25]]),
    ]
    check_rows(check_row, rows)


def test_refused_with_name_value_and_range() -> None:
    def check_row(name: str, value: Any, allowed: str) -> None:
        with pytest.raises(ConfigError) as error:
            check(name, value)
        shown = value.item() if isinstance(value, np.generic) else value
        assert str(error.value) == f"{name} = {shown!r} is not allowed; allowed: {allowed}"

    rows = [
        ("number", 1, "float, >= 0, < 1"),
        ("number", -0.1, "float, >= 0, < 1"),
        ("number", math.nan, "float, >= 0, < 1"),
        ("number", math.inf, "float, >= 0, < 1"),
        ("number", True, "float, >= 0, < 1"),
        ("number", "0.5", "float, >= 0, < 1"),
        ("number", None, "float, >= 0, < 1"),
        ("unbounded", math.nan, "float"),
        ("unbounded", math.inf, "float"),
        ("count", 0, "int, >= 1"),
        ("count", 2.5, "int, >= 1"),
        ("count", True, "int, >= 1"),
        ("count", np.bool_(True), "int, >= 1"),
        ("count", math.nan, "int, >= 1"),
        ("count", math.inf, "int, >= 1"),
        ("maybe", 0, "int or None, > 0"),
        ("flag", 1, "bool"),
        ("flag", "yes", "bool"),
        ("name", "c", "one of 'a', 'b'"),
        ("name", 1, "one of 'a', 'b'"),
        ("widths", 64, "list"),
        ("widths", ["64"], "list"),
        ("options", [], "dict"),
        ("literal", "z", "'x' or 'y'"),
        ("rate", 0, "float or schedule, > 0, <= 2"),
        ("rate", [[0, 3.0]], "float or schedule, > 0, <= 2"),
        ("rate", [[0, math.nan]], "float or schedule, > 0, <= 2"),
    ]
    check_rows(check_row, rows)


def test_no_schedule(golden: Golden) -> None:
    cases = [
        [],
        [0.1],
        [[1, 0.1]],
        [[0, 0.1], [0, 0.2]],
        [[0, 0.1], [20, 0.2], [10, 0.1]],
        [[0, 0.1, 0.2]],
        [[0, "0.1"]],
        [[0, 0.1], 0.2],
        [["0", 0.1]],
        [[0, True]],
    ]
    golden("settings/no_schedule", refusals(lambda schedule: check("rate", schedule), cases))


def test_unknown_name_with_the_nearest_and_their_sections() -> None:
    with pytest.raises(ConfigError) as error:
        Example.check({"coutn": 1})
    assert str(error.value) == (
        "unknown setting 'coutn' of Example; did you mean 'count' (in .training())?"
    )
    with pytest.raises(ConfigError, match=r"unknown setting 'zzzz' of Example$"):
        Example.check({"zzzz": 1})
    with pytest.raises(ConfigError, match="unknown setting 'numbr' of Example; did you mean 'num"):
        Example().numbr = 1  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"unknown option 'widht' of NestedE.*mean 'width'\?$"):
        NestedExample.check({"widht": 1})


def test_defaults_are_not_shared() -> None:
    one, other = Example(), Example()
    one.widths.append(1)
    one.options["a"] = 1
    assert other.widths == [64, 64]
    assert other.options == {}
    assert Example.settings()["widths"].default == [64, 64]


def test_defaults_pass_their_own_checks() -> None:
    for name, declared in Example.settings().items():
        assert declared.check(declared.default) == declared.default, name


def test_assignment_is_checked() -> None:
    example = Example(count=2)
    example.count = 5
    with pytest.raises(ConfigError, match=r"count = 0 is not allowed; allowed: int, >= 1"):
        example.count = 0
    with pytest.raises(ConfigError):
        Example(count=0)
    assert example.count == 5


def test_copy_and_dict_are_deep() -> None:
    example = Example(options={"a": [1]})
    copied, as_dict = example.copy(), example.to_dict()
    example.options["a"].append(2)
    assert copied.options == as_dict["options"] == {"a": [1]}


DOMAINS = [
    tune.uniform(0, 1),
    tune.loguniform(1e-5, 1e-1),
    tune.choice([1, 2]),
    tune.randint(1, 5),
    tune.sample_from(lambda config: 3),
    tune.grid_search([1, 2]),
    {"grid_search": [1, 2]},
]


def test_search_domains_pass() -> None:
    def check_row(name: str, domain: Any) -> None:
        assert is_search_domain(domain)
        assert check(name, domain) is domain

    check_rows(
        check,
        itertools.product(
            ["number", "count", "flag", "name", "rate", "widths", "options"], DOMAINS
        ),
    )


def test_domains_inside_containers_pass() -> None:
    domain = tune.randint(1, 5)
    for value in ([8, domain], {"a": [{"b": domain}]}, ((0, domain), (1, 2))):
        assert contains_search_domain(value)
    assert check("widths", [8, domain]) == [8, domain]
    assert check("rate", [[0, tune.uniform(0, 1)]])[0][0] == 0


def test_what_is_no_domain() -> None:
    def check_row(value: Any) -> None:
        assert not contains_search_domain(value)

    rows = [None, 1, "grid_search", [], {}, {"grid_search": [1], "more": 2}, np.ones(2), Example]
    check_rows(check_row, rows)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_range_is_what_the_declaration_says(value: float) -> None:
    if 0 <= value < 1:
        assert check("number", value) == value
    else:
        with pytest.raises(ConfigError):
            check("number", value)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.lists(st.text()), max_size=3))
def test_plain_dicts_are_kept(value: dict[str, Any]) -> None:
    if set(value) != {"grid_search"}:
        assert check("options", value) == value
