"""Plain scalars mean what they seem to: no number of minutes, no silent octal, no truth in `no`."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from experiments.sweep.load import dump_spec, make_spec
from search_spaces import SpecError
from search_spaces.documents import parse
from search_spaces.yaml_values import dump_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),  # 90 in YAML 1.1
        ("190:20:30", "190:20:30"),
        ("1:30.5", "1:30.5"),
        ("2024-01-01", "2024-01-01"),  # a date
        ("2024-02-31", "2024-02-31"),  # no date: a ValueError
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("1e-3", 0.001),  # text
        ("3e4", 30000.0),
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
    ],
)
def test_values(text: str, value: Any) -> None:
    read = parse(f"a: {text}", "x")[0]["a"]
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no", "no is false in YAML 1.1 and text in YAML 1.2; write false, or 'no'"),
        ("On", "On is true in YAML 1.1 and text in YAML 1.2; write true, or 'On'"),
        ("off", "write false, or 'off'"),
        ("YES", "write true, or 'YES'"),
        ("010", "010 is 8 in YAML 1.1, as octal, and 10 in YAML 1.2; write one of the two, or '01"),
        ("-0_17", "-0_17 is -15 in YAML 1.1, as octal, and -17 in YAML 1.2"),
        ("00", "00 is 0 in YAML 1.1"),
    ],
)
def test_what_two_versions_read_differently_is_refused(text: str, said: str) -> None:
    for written in (f"a:\n  - {text}", f"\n{text}: 1"):
        with pytest.raises(SpecError, match=r"^x:2: ") as error:
            parse(written, "x")
        assert said in str(error.value)


def test_a_setting_that_looks_like_a_time_is_named() -> None:
    config = parse("{env: CartPole-v1, lr: 1:30}", "x")[0]
    with pytest.raises(SpecError, match="lr = '1:30' is not allowed; allowed: float"):
        make_spec({"name": "x", "config": config})


TEXTS = ("1e5", "3E4", "1:30", "no", "On", "010", "089", "0o17", "2024-01-01", "1.", "y", "~", "=")


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_texts_again(text: str) -> None:
    assert parse(dump_yaml({"a": text}), "x")[0] == {"a": text}
    assert yaml.safe_load(dump_yaml({"a": text})) == {"a": text}
    given = {"name": "x", "trainable": "sweep_dummy:Dummy", "mlflow": {"tags": {"tag": text}}}
    spec = make_spec(given)
    assert make_spec(parse(dump_spec(spec), "x")[0]) == spec


def test_numbers_are_numbers_again() -> None:
    data = [0, -1, 10**20, 1e-5, 1e300, 0.1, -math.inf, True, None, 1e16, 123456789.123]
    assert parse(dump_yaml({"a": data}), "x")[0] == {"a": data}
