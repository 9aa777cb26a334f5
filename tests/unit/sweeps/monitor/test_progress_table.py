"""The live table at several widths: what goes first, and that nothing is cut."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from analysis.numbers import short
from experiments.fitted_columns import fold, short_names
from experiments.monitor.progress_table import TrialRow, TrialTable

METRIC = "evaluation/env_runners/episode_return_mean"
SETTINGS: dict[str, Any] = {
    "lr": 0.00018664,
    "clip_param": 0.21457,
    "num_epochs": 10,
    "model/fcnet_hiddens": [256, 256],
    "train_batch_size_per_learner": 65536,
}


def _row(number: int, **changes: Any) -> TrialRow:
    made: dict[str, Any] = {
        "trial_id": f"c4bf312{number}",
        "status": "running",
        "settings": SETTINGS,
        "iteration": 25,
        "env_steps": 254_080,
        "value": 196.71234,
        "speed": 12_345.6,
        "seconds": 65.0,
        "is_best": number == 0,
    }
    return TrialRow(**(made | changes))


def _lines(width: int, rows: list[TrialRow] | None = None, hidden: int = 0) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    table = TrialTable(rows or [_row(0), _row(1)], list(SETTINGS), METRIC, hidden)
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_a_wide_terminal_shows_everything() -> None:
    heading, row = " ".join(_lines(160)[:2]), _lines(160)[2].split()
    for name in ("trial", "status", "lr", "clip_param", "fcnet_hiddens", "env steps", "steps/s"):
        assert name in heading
    assert "evaluation" not in heading  # the header line says the whole name
    assert " ".join(row) == (
        "c4bf3120 running 0.000187 0.215 10 [256, 256] 65536 196.7 254k 25 12.3k 1:05"
    )


def test_headings_are_folded_before_columns_go() -> None:
    lines = _lines(104)
    assert "train_batch_size_per_learner" not in "".join(lines)
    assert lines[-1].split()[-1] == "1:05"


@pytest.mark.parametrize("width", range(60, 161, 4))
def test_nothing_is_cut_and_the_settings_stay_longest(width: int) -> None:
    lines = _lines(width)
    assert max(len(line.rstrip()) for line in lines) <= width
    row = next(line for line in lines if line.startswith("c4bf3121")).split()
    assert row[:2] == ["c4bf3121", "running"]
    assert "…" not in "".join(line for line in lines if not line.startswith("..."))
    cells = ["254k", "1:05", "25", "12.3k"]  # the last one goes first
    there = [cell in row for cell in cells]
    assert there == sorted(there, reverse=True)
    settings = ["0.000187", "0.215", "10", "[256,", "65536"]
    there_too = [cell in row for cell in settings]
    assert there_too == sorted(there_too, reverse=True)
    assert all(there_too) or not any(there)
    assert "196.7" in row


def test_at_80_columns_all_five_settings_are_there() -> None:
    row = next(line for line in _lines(80) if line.startswith("c4bf3120"))
    assert "0.000187" in row and "65536" in row and "196.7" in row


def test_what_has_no_room_is_named() -> None:
    told = (
        " ".join(line.strip() for line in _lines(44)).partition("... no room for ")[2].split(", ")
    )
    assert told == ["num_epochs", "model/fcnet_hiddens", "train_batch_size_per_learner"]
    assert _lines(160, hidden=7)[-1] == "... 7 more trials"


def test_unknown_values_are_empty_and_none_is_not() -> None:
    row = _row(0, settings={"lr": None}, iteration=None, env_steps=None, value=None, speed=None)
    line = next(line for line in _lines(160, [row]) if line.startswith("c4bf"))
    assert line.split() == ["c4bf3120", "running", "None", "1:05"]


def test_trials_that_share_processes_have_a_column_of_them() -> None:
    assert not any("host" in line for line in _lines(160))
    lines = _lines(160, [_row(0, host=0), _row(1, host=1), _row(2)])
    assert "time  host" in lines[1]
    assert [line.split()[-1] for line in lines[2:5]] == ["0", "1", "1:05"]
    shown = set()
    for width in range(60, 161):
        text = "\n".join(_lines(width, [_row(0, host=0), _row(1, host=1)]))
        shown.add(("host" in text, "steps/s" in text))
    assert shown == {(False, False), (False, True), (True, True)}  # it is the first to go


def test_headings() -> None:
    assert fold("episode_return_mean", 12) == ["episode_", "return_mean"]
    assert fold("env steps", 4) == ["env", "steps"]
    assert fold("lr", 1) == ["lr"]
    assert fold("steps/s", 3) == ["steps/s"]
    assert fold("model/fcnet_hiddens", 7) == ["model/", "fcnet_", "hiddens"]
    assert len(fold("a_very_long_name_of_a_setting_of_mine", 4)) == 3
    assert short_names(["a/lr", "b/lr", "c/d/gamma"]) == ["a/lr", "b/lr", "gamma"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.00018664, "0.0001866"),
        (196.71234, "196.7"),
        (12345.6, "12346"),
        (-12345.6, "-12346"),
        (2.5e8, "2.5e+08"),
        (1.15e-5, "1.15e-05"),
        (math.nan, "nan"),
        (None, ""),
        ("ALE/Breakout-v5-NoFrameskip", "ALE/Break…meskip"),
    ],
)
def test_numbers_have_four_digits(value: Any, shown: str) -> None:
    assert short(value) == shown


def test_a_trainable_that_counts_no_env_steps_has_no_such_columns() -> None:
    lines = _lines(160, [_row(0, env_steps=None, speed=None), _row(1, env_steps=None, speed=None)])
    assert not any("env steps" in line or "steps/s" in line for line in lines)
    assert any("iter" in line for line in lines)
