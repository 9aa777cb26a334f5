"""Results, specs and paths that are not what they should be: read, or one message of ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import row
from stages import without_stages

from analysis.frames.frames import curves_frame, trials_frame
from analysis.results.load import load_sweep
from analysis.results.records import ResultsError
from analysis.results.rows import read_rows
from analysis.results.spec_file import read_spec_file
from experiments import cli

ROWS = [{**row(n, float(n)), "timestamp": n, "config": {"lr": 0.1}} for n in (1, 2, 3)]
ODD = ("abc", None, [1], {"a": 1}, True, float("nan"), float("inf"), -1, 10**400, 2**63, "", [], {})


def sweep(tmp_path: Path, lines: list[Any], params: str | None = "{}") -> Path:
    trial = tmp_path / "sweep" / "trial_1"
    trial.mkdir(parents=True)
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (trial / "result.json").write_text("".join(f"{line}\n" for line in text))
    if params is not None:
        (trial / "params.json").write_text(params)
    return trial.parent


@pytest.mark.parametrize("where", [(0, 1, 2), (1,), (2,)])
@pytest.mark.parametrize("key", ["training_iteration", "config", "timestamp", "trial_id", "done"])
def test_odd_values_in_rows(tmp_path: Path, key: str, where: tuple[int, ...]) -> None:
    for number, odd in enumerate(ODD):
        rows = [{**r, key: odd} if n in where else r for n, r in enumerate(ROWS)]
        folder = sweep(tmp_path / str(number), rows)
        assert len(trials_frame(folder)) == 1
        curves_frame(folder, metrics=["episode_return_mean"])


def test_lines_that_are_no_rows(tmp_path: Path) -> None:
    """`null` alone ended the process with a segmentation fault, in Arrow."""
    lines = ["null", "[]", "3", '"abc"', "{", "NaN", "[" * 5000, "9" * 5000]
    for number, line in enumerate(lines):
        folder = sweep(tmp_path / f"some{number}", [ROWS[0], line, *ROWS[1:]])
        frame, configs = read_rows(folder / "trial_1")
        assert list(frame["training_iteration"]) == [1, 2, 3], line
        assert configs == [{"lr": 0.1}] * 3, line
        assert len(trials_frame(sweep(tmp_path / f"only{number}", [line, line]))) == 1, line


def test_params_of_another_kind(tmp_path: Path) -> None:
    rows = [{k: v for k, v in r.items() if k != "config"} for r in ROWS]
    for number, params in enumerate([None, "", "[]", "3", '"x"', "{"]):
        found = load_sweep(sweep(tmp_path / str(number), rows, params))
        assert found.trials[0].config == {}, params


def test_a_metric_that_is_no_number(tmp_path: Path) -> None:
    loaded = load_sweep(sweep(tmp_path, [{**r, "episode_return_mean": "x"} for r in ROWS]))
    with pytest.raises(
        ResultsError, match="trial_1: the metric 'episode_return_mean' is not a num"
    ):
        loaded.require_metric("episode_return_mean")


def test_sections_of_another_kind_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        "name: a\nconfig: []\nobjective: {metric: [1]}\nstop: {a: b}\nsearch: 3\n"
        "search_space: {lr: 3}\nscheduler: {algorithm: asha}\n"
    )
    assert read_spec_file(tmp_path) == {"name": "a", "scheduler": {"algorithm": "asha"}}
    (tmp_path / "spec.yaml").write_text("seed: !!bool abc\n")
    assert read_spec_file(tmp_path) == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["schema", "-o", "none/here.json"], "none/here.json: No such file or directory"),
        (["schema", "-o", "."], ".: Is a directory"),
        (["schema", "-o", "~nouser/x"], "~nouser is no user's home"),
        (["report", "~nouser/x"], "~nouser is no user's home"),
        (["run", "a" * 300], "File name too long"),
        (["run", f"{'a' * 300}.yaml"], "File name too long"),
        (["resume", "~nouser/x"], "~nouser is no user's home"),
        (["evaluate", "~nouser/x"], "~nouser is no user's home"),
        (["frames", "a" * 300], "File name too long"),
    ],
)
def test_paths_on_the_command_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tunescape", *arguments])
    with pytest.raises(SystemExit) as status:
        cli.main()
    errors = without_stages(capsys.readouterr().err)
    assert status.value.code == 2, errors
    assert errors.count("\n") == 1 and expected in errors
