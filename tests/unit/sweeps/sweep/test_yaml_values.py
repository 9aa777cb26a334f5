"""Plain scalars mean what they seem to: no number of minutes, no silent octal, no truth in `no`."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import yaml
from refusals import Golden, refusals

from experiments.sweep.load import dump_spec, make_spec
from search_spaces import SpecError
from search_spaces.documents import parse
from search_spaces.yaml_values import dump_yaml

VALUES: list[tuple[str, Any]] = [
    ("1:30", "1:30"),
    ("190:20:30", "190:20:30"),
    ("1:30.5", "1:30.5"),
    ("2024-01-01", "2024-01-01"),
    ("2024-02-31", "2024-02-31"),
    ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
    ("1e-3", 0.001),
    ("3e4", 30000.0),
    ("1E5", 1e5),
    ("-.5e+3", -500.0),
    ("1e", "1e"),
    ("e5", "e5"),
    ("0.1.2", "0.1.2"),
    ("1.", 1.0),
    (".5", 0.5),
    ("-.inf", -math.inf),
    ("1_000", 1000),
    ("+12", 12),
    ("-0", 0),
    ("0x1F", 31),
    ("0b11", 3),
    ("0o17", "0o17"),
    ("089", "089"),
    ("0", 0),
    ("0.10", 0.1),
    ("true", True),
    ("False", False),
    ("y", "y"),
    ("~", None),
    ("null", None),
    ("=", "="),
    ("'no'", "no"),
    ('"010"', "010"),
    ("Norway", "Norway"),
    ("10.0.0.1:6379", "10.0.0.1:6379"),
    ("0.0.0.0:80", "0.0.0.0:80"),
]


def test_values() -> None:
    read = {text: parse(f"a: {text}", "x")[0]["a"] for text, _ in VALUES}
    assert {text: repr(value) for text, value in read.items()} == {
        text: repr(value) for text, value in VALUES
    }


DIFFERENT = [
    "no",
    "On",
    "off",
    "YES",
    "010",
    "-0_17",
    "00",
]


def test_what_two_versions_read_differently_is_refused(golden: Golden) -> None:
    written = {text: f"a:\n  - {text}" for text in DIFFERENT}
    keys = {f"{text} as a key": f"\n{text}: 1" for text in DIFFERENT}
    read = partial(parse, source="x")
    golden("sweeps/yaml_versions", refusals(read, written | keys, SpecError))


def test_a_setting_that_looks_like_a_time_is_named() -> None:
    config = parse("{env: CartPole-v1, lr: 1:30}", "x")[0]
    with pytest.raises(SpecError, match="lr = '1:30' is not allowed; allowed: float"):
        make_spec({"name": "x", "config": config})


TEXTS = ("1e5", "3E4", "1:30", "no", "On", "010", "089", "0o17", "2024-01-01", "1.", "y", "~", "=")


def test_texts_are_texts_again() -> None:
    tags = {f"tag{number}": text for number, text in enumerate(TEXTS)}
    assert parse(dump_yaml(tags), "x")[0] == tags == yaml.safe_load(dump_yaml(tags))
    given = {"name": "x", "trainable": "sweep_dummy:Dummy", "mlflow": {"tags": tags}}
    spec = make_spec(given)
    assert make_spec(parse(dump_spec(spec), "x")[0]) == spec


def test_numbers_are_numbers_again() -> None:
    data = [0, -1, 10**20, 1e-5, 1e300, 0.1, -math.inf, True, None, 1e16, 123456789.123]
    assert parse(dump_yaml({"a": data}), "x")[0] == {"a": data}
