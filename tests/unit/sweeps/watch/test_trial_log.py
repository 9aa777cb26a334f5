"""A trial's file is read as it grows, also where rows are torn, taken back or written again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import row

from analysis.results.rows import read_rows
from experiments.watch import trial_log
from experiments.watch.trial_log import TrialLog

METRIC = "episode_return_mean"


def write(folder: Path, *rows: dict[str, Any], end: str = "\n") -> None:
    with (folder / "result.json").open("a") as file:
        file.write("\n".join(json.dumps(each) for each in rows) + end)


def curve(log: TrialLog) -> list[tuple[float, float | None]]:
    return [(point.iteration, point.values[0]) for point in log.points]


def test_each_row_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = trial_log.parse_row
    monkeypatch.setattr(trial_log, "parse_row", lambda line: parsed.append(line) or parse(line))
    log = TrialLog(tmp_path, [METRIC])
    assert not log.read(100) and curve(log) == []
    write(tmp_path, row(1, 1.0), row(2, 2.0))
    assert log.read(100) and not log.read(100)
    version = log.version
    write(tmp_path, row(3, 3.0))
    assert log.read(100) and len(parsed) == 3
    assert curve(log) == [(1, 1.0), (2, 2.0), (3, 3.0)] and log.version == version
    assert log.points[-1].steps == 300 and log.points[-1].seconds == 1.5


def test_a_row_counts_when_it_is_whole(tmp_path: Path) -> None:
    log, text = TrialLog(tmp_path, [METRIC]), json.dumps(row(2, 2.0))
    write(tmp_path, row(1, 1.0))
    write(tmp_path, end=text[:30])
    assert log.read(100) and not log.read(100) and len(log.points) == 1
    write(tmp_path, end=text[30:] + "\n")
    assert log.read(100) and curve(log) == [(1, 1.0), (2, 2.0)]
    # A kill tore a row, and the resumed trial wrote its next one right behind.
    write(tmp_path, end=text[:30])
    write(tmp_path, row(3, 3.0))
    assert log.read(100) and curve(log)[-1] == (3, 3.0) and len(log.points) == 3


def test_rows_that_are_taken_back_or_repeated(tmp_path: Path) -> None:
    log = TrialLog(tmp_path, [METRIC])
    write(tmp_path, *(row(i, float(i)) for i in (1, 2, 3)))
    log.read(100)
    version = log.version
    write(tmp_path, row(2, 20.0))
    log.read(100)
    assert curve(log) == [(1, 1.0), (2, 20.0)] and log.version > version
    assert log.course.last == 20.0 and len(log.course) == 2
    # A resume puts a shorter file in its place.
    part = tmp_path / "part"
    part.write_text(json.dumps(row(1, 5.0)) + "\n")
    os.replace(part, tmp_path / "result.json")
    version = log.version
    assert log.read(100) and curve(log) == [(1, 5.0)] and log.version > version
    part.write_text("".join(json.dumps(row(i, 7.0)) + "\n" for i in (1, 2, 3)))  # longer by now
    os.replace(part, tmp_path / "result.json")
    assert log.read(100) and curve(log) == [(1, 7.0), (2, 7.0), (3, 7.0)]
    (tmp_path / "result.json").unlink()  # it starts anew
    assert log.read(100) and curve(log) == [] and log.last == {} and not log.read(100)


def test_a_long_curve_is_thinned_and_keeps_its_peak(tmp_path: Path) -> None:
    log = TrialLog(tmp_path, [METRIC])
    write(tmp_path, *(row(i, 999.0 if i == 77 else float(i % 7)) for i in range(1, 201)))
    log.read(40)
    assert len(log.points) <= 40 and (77, 999.0) in curve(log)
    assert curve(log)[0][0] == 1 and curve(log)[-1][0] == 200
    assert len(log.course) == 200


def test_it_sees_what_the_analysis_sees(tmp_path: Path) -> None:
    odd = [
        row(1, float("nan"), config={"lr": 1}),
        row(2, None, config={"lr": 1}),
        row(3, 3.0, config={"lr": 1}, num_env_steps_sampled_lifetime=900),
        row(4, 4.0, config={"lr": 2}, num_env_steps_sampled_lifetime=400),  # a clone of PBT
        row(5, True, config={"lr": 2}),  # type: ignore[arg-type]
    ]
    write(tmp_path, *odd, {"training_iteration": 6, METRIC: {"nested": 1}, "config": {"lr": 2}})
    log = TrialLog(tmp_path, [METRIC])
    log.read(100)
    frame, configs = read_rows(tmp_path)
    assert [point.iteration for point in log.points] == frame["training_iteration"].tolist()
    assert [value for _, value in curve(log)] == [None, None, 4.0, None, None]
    assert log.first_config == {"lr": 1} and log.config == configs[-1] == {"lr": 2}


def test_hostile_rows_do_no_harm(tmp_path: Path) -> None:
    rows = ["[]", "7", "\0\0", '{"training_iteration": 1e999}', '{"a": ' * 2000]
    rows += [f'{{"training_iteration": 1{"0" * 400}, "{METRIC}": 1{"0" * 400}, "timestamp": "x"}}']
    (tmp_path / "result.json").write_text("\n".join(rows) + "\n")
    log = TrialLog(tmp_path, [METRIC])
    assert log.read(100)
    assert all(value is None for _, value in curve(log))
