"""The page of the reference's promises is true: what works is there and held, what not raises."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml
from promise_checks import message_of, missing, named_settings

from trainables.promise_table import PART, STATES, Promise, promises

TESTS = Path(__file__).parents[1]
NAMED = sorted({name for promise in promises() for name in promise.names})
RAISING = [entry for promise in promises() for entry in promise.raises]
REFERENCE = yaml.safe_load(Path(__file__).with_name("reference_names.yaml").read_text())
DIFFERENT = [promise for promise in promises() if promise.state != "works"]


def ids(promise: Promise) -> str:
    return promise.promise[:60]


@cache
def functions_of(file: str) -> frozenset[str]:
    """The functions of a test file; none where there is no such file."""
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def test_the_page_is_what_the_generator_gives() -> None:
    assert PART.current() == PART.make(), f"run python -m {PART.command} --write"


def test_the_list_is_whole() -> None:
    """A guard against a list that was cut short."""
    assert len(promises()) >= 240
    assert [name for name, n in Counter(p.promise for p in promises()).items() if n > 1] == []


@pytest.mark.parametrize("promise", promises(), ids=ids)
def test_a_promise_has_a_state_and_is_held(promise: Promise) -> None:
    assert promise.state in STATES
    assert promise.test or promise.names or promise.raises
    if promise.state == "works":
        assert promise.test
    if promise.state in ("refused", "planned"):
        assert promise.raises or promise.test
    for test in promise.test:
        file, _, function = test.partition("::")
        assert function.startswith("test_") and function in functions_of(file), test


@pytest.mark.parametrize("promise", DIFFERENT, ids=ids)
def test_a_difference_has_a_reason(promise: Promise) -> None:
    assert len(promise.reason) > 10 and not promise.reason.endswith(".")
    assert "\n" not in promise.reason


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_is_there(name: str) -> None:
    assert missing(name) == []


@pytest.mark.parametrize("entry", RAISING, ids=str)
def test_what_is_not_there_raises_and_says_why(entry: dict[str, object]) -> None:
    message = message_of(entry)
    assert len(message) > 20
    assert str(entry.get("says", "")) in re.sub(r"\s+", " ", message)


def test_every_name_of_the_reference_is_in_a_promise() -> None:
    """Settings and methods, by the section or class that has them in the documents."""
    promised = {word for name in NAMED for word in named_settings(name)}
    promised |= {str(entry[key]) for entry in RAISING for key in ("setting",) if key in entry}
    promised |= {
        str(entry["attribute"]).partition(".")[2] for entry in RAISING if "attribute" in entry
    }
    known = {name for part in REFERENCE.values() for names in part.values() for name in names}
    assert sorted(known - promised) == []


def test_a_wrong_name_is_seen() -> None:
    """The checks can fail."""
    assert missing("Algorithm.trian") and missing("Algorithm.save(prevent_upload)")
    assert missing("PPOConfig.training(double_q)") and missing("model(fcnet_hidens)")
    assert missing("result(episode_rewards)") and missing("callbacks(on_anything)")
    assert missing("tunescape train --trees") and missing("trainables.nothing.Config")
    with pytest.raises(AssertionError, match="nothing is raised"):
        message_of({"section": "training", "setting": "lr", "value": 1e-3})
