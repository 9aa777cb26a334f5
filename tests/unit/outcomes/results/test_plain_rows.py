"""Rows read by Arrow are those read one by one; what Arrow would read otherwise is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from analysis_sweeps import row

from analysis import curves_frame, load_sweep, trials_frame
from analysis.results import plain_rows, rows
from analysis.results.rows import read_rows

NAN = float("nan")
LR1, LR2 = {"lr": 0.1, "model": {"w": [64, 64]}}, {"lr": 0.2, "model": {"w": [64, 64]}}

PLAIN: dict[str, list[dict[str, Any]]] = {
    "of one config": [row(i, i / 3, config=LR1) for i in (1, 2, 3)],
    "of a config that changes": [
        row(1, 1.0, config=LR1),
        *(row(i, 2.0, config=LR2) for i in (2, 3)),
    ],
    "without a config": [row(1, 1.0), row(2, 2.0)],
    "with a config now and then": [row(1, 1.0, config=LR1), row(2, 2.0), row(3, 3.0, config=LR1)],
    "of a config that says config": [row(1, 1.0, config={"config": {"a": 1}, "b": '"config": {'})],
    "with text about a config": [row(1, 1.0, note='"config": {"lr": 0.1}', config=LR1)] * 2,
    "of a resumed trial": [row(i, float(i), config=LR1) for i in (1, 2, 3, 2, 3, 4)],
    "whose dropped rows have other types": [
        *(row(1, 1.0, config=LR1), row(2, 2.0, only=1.5, config=LR1), row(2, 3.0, config=LR2)),
        row(3, 3.0, config=LR2),
    ],
    "of a clone whose steps went back": [
        {**row(i, 1.0, config=c), "num_env_steps_sampled_lifetime": n}
        for i, n, c in [(1, 200, LR1), (2, 400, LR1), (3, 600, LR1), (5, 400, LR2)]
    ],
    "with NaN and infinity": [row(1, NAN, config=LR1), row(2, float("inf")), row(3, -1.0)],
    "that are NaN throughout": [row(1, NAN), row(2, NAN)],
    "with a metric that is missing at first": [row(1, None, text="a"), row(2, 2, n=1), row(3, 2.5)],
    "in other letters": [row(1, 1.0, note="größer → ∞", config={"env": "Schloß"})],
    "with steps that are missing": [{"training_iteration": i, "a": i} for i in (1, 2)],
}
OTHERS: dict[str, list[dict[str, Any]]] = {
    "nested": [row(1, 1.0, evaluation={"return": 1.0, "config": {"lr": 3}}, config=LR1)],
    "with a list": [row(1, 1.0, lengths=[1, 2], config=LR1)],
    "with an empty mapping": [row(1, 1.0, info={}, config=LR1)],
    "with a date": [row(1, 1.0, day="2026-01-01", config=LR1)],
    "of changing types": [row(1, 1.0, a=1), row(2, 1.0, a=True), row(3, 1.0, a="x")],
    "with a null": [row(1, 1.0, a=None), row(2, 1.0, a=None)],
    "with a truth that is missing": [row(1, 1.0, a=True), row(2, 1.0)],
    "without an iteration": [{"a": 1.0}, {"a": 2.0}],
    "whose config is none": [{**row(1, 1.0), "config": None}, row(2, 1.0, config=LR1)],
}


def written(folder: Path, text: str) -> Path:
    (folder / "result.json").write_text(text, encoding="utf-8")
    return folder


def lines(given: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(r) + "\n" for r in given)


def both(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What is read, and what is read without Arrow."""
    found = read_rows(folder)
    with monkeypatch.context() as patch:
        patch.setattr(rows, "read_plain_rows", lambda *_: None)
        return found, read_rows(folder)


def assert_same(found: Any, expected: Any) -> None:
    pd.testing.assert_frame_equal(found[0], expected[0])
    assert found[1] == expected[1]


@pytest.mark.parametrize("name", PLAIN)
def test_plain_rows_are_those_read_one_by_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lines(PLAIN[name])
    data = text.encode()
    assert plain_rows.read_plain_rows(data, rows.one_timeline) is not None
    for ending in (text, text.rstrip("\n")):
        assert_same(*both(written(tmp_path, ending), monkeypatch))


@pytest.mark.parametrize("name", OTHERS)
def test_other_rows_are_left_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lines(OTHERS[name])
    assert plain_rows.read_plain_rows(text.encode(), rows.one_timeline) is None
    assert_same(*both(written(tmp_path, text), monkeypatch))


WHOLE = json.dumps(row(1, 1.0, config=LR1))
AGAIN = json.dumps(row(1, 2.0, config=LR1))


@pytest.mark.parametrize(
    "text",
    [
        f"{WHOLE}\n{AGAIN[:40]}",
        f"{WHOLE}\n{AGAIN[:-20]}",
        f"{WHOLE}\n{AGAIN[:40]}{AGAIN}\n",
        f"{WHOLE}{AGAIN}\n",  # the line's end was torn off
        f"{WHOLE}\n\n{AGAIN}\n",
        f'{WHOLE}\n{{"a": 1, "a": 2, "training_iteration": 3}}\n',
        WHOLE.replace('": ', '":') + "\n",
        "\n",
        "",
    ],
)
def test_wounds_are_left_alone(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(*both(written(tmp_path, text), monkeypatch))


def test_bytes_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = json.dumps(row(1, 1.0, note="?", config=LR1)).encode().replace(b"?", b"\xff")
    (tmp_path / "result.json").write_bytes(note + b"\n")
    found, expected = both(tmp_path, monkeypatch)
    assert_same(found, expected)
    assert found[0]["note"].tolist() == ["\ufffd"]


def test_a_large_sweep_is_parsed_once_and_its_configs_once_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials, results = 50, 40
    made = pytest.importorskip("experiments.benchmarks.fabricated_sweep")
    folder = made.fabricate(tmp_path / "sweep", trials=trials, results=results)
    slow: list[Any] = []
    configs: list[Any] = []
    config_of = plain_rows._config_of
    monkeypatch.setattr(rows, "parse_row", lambda line: slow.append(line))
    monkeypatch.setattr(
        plain_rows, "_config_of", lambda line: (configs.append(line), config_of(line))[1]
    )
    sweep = load_sweep(folder)
    assert len(trials_frame(sweep)) == trials
    curves = curves_frame(sweep, ["episode_return_mean"])
    assert curves["training_iteration"].tolist() == [*range(1, results + 1)] * trials
    assert not slow
    assert len(configs) == trials
