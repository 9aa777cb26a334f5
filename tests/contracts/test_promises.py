"""The page of the reference's promises is true: what works is there and held, what not raises."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from every_row import check_rows
from promise_checks import message_of, missing, named_settings

from trainables.promise_table import PART, STATES, Promise, promises

TESTS = Path(__file__).parents[1]
NAMED = sorted({name for promise in promises() for name in promise.names})
RAISING = [entry for promise in promises() for entry in promise.raises]
REFERENCE = yaml.safe_load(Path(__file__).with_name("reference_names.yaml").read_text())


@cache
def functions_of(file: str) -> frozenset[str]:
    """The functions of a test file; none where there is no such file."""
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def test_the_page_is_what_the_generator_gives() -> None:
    assert PART.current() == PART.text(), f"run python -m {PART.command} --write"


def test_the_list_is_whole() -> None:
    """A guard against a list that was cut short."""
    names = [promise.promise for promise in promises()]
    assert len(names) == len({*names}) >= 240


def test_a_promise_has_a_state_and_is_held() -> None:
    def check(promise: Promise) -> None:
        assert promise.state in STATES
        assert promise.test or promise.names or promise.raises
        if promise.state == "works":
            assert promise.test
        else:  # a difference has a reason
            assert len(promise.reason) > 10 and not promise.reason.endswith(".")
            assert "\n" not in promise.reason
        if promise.state in ("refused", "planned"):
            assert promise.raises or promise.test
        for test in promise.test:
            file, _, function = test.partition("::")
            assert function.startswith("test_") and function in functions_of(file), test

    check_rows(check, promises())


def test_what_is_named_is_there() -> None:
    assert [problem for name in NAMED for problem in missing(name)] == []


def test_what_is_not_there_raises_and_says_why() -> None:
    def check(entry: dict[str, object]) -> None:
        message = message_of(entry)
        assert len(message) > 20
        assert str(entry.get("says", "")) in re.sub(r"\s+", " ", message)

    check_rows(check, RAISING)


def test_every_name_of_the_reference_is_in_a_promise() -> None:
    """Settings and methods, by the section or class that has them in the documents."""
    promised = {word for name in NAMED for word in named_settings(name)}
    promised |= {str(entry["setting"]) for entry in RAISING if "setting" in entry}
    promised |= {
        str(entry["attribute"]).partition(".")[2] for entry in RAISING if "attribute" in entry
    }
    known = {name for part in REFERENCE.values() for names in part.values() for name in names}
    assert sorted(known - promised) == []


def test_a_wrong_name_is_seen() -> None:
    """The checks can fail."""
    for wrong in (
        *("Algorithm.trian", "Algorithm.save(prevent_upload)", "PPOConfig.training(double_q)"),
        *("model(fcnet_hidens)", "result(episode_rewards)", "callbacks(on_anything)"),
        *("tunescape train --trees", "trainables.nothing.Config"),
    ):
        assert missing(wrong), wrong
    with pytest.raises(AssertionError, match="nothing is raised"):
        message_of({"section": "training", "setting": "lr", "value": 1e-3})
    with pytest.raises(AssertionError, match=r"1 rows fail:\nAssertionError: nothing .*: 2$"):
        check_rows(lambda row: message_of({"call": "1"}) if row == 2 else None, [1, 2, 3])
