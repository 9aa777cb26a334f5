"""The comparison of a matrix's sweeps: what each one's value is, and when there is a winner."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import make_runs, make_sweep, row
from rich.console import Console

from analysis import compare
from analysis.ranking.held_out import Candidate
from experiments.commands.sweeps import show_comparison
from experiments.errors import PreflightError
from experiments.running.final import Final
from experiments.running.matrix import _fill
from experiments.running.matrix_state import Matrix, Row
from experiments.running.results import Outcome
from experiments.sweep.load import make_spec
from experiments.sweep.preflight import check_storage

STOP = {"num_env_steps_sampled_lifetime": 1000}


def matrix(second: dict[str, Any], mode: str = "max") -> Matrix:
    """Two sweeps on one environment, of which the second has the larger value."""

    def spec(name: str) -> Any:
        space = {"lr": {"uniform": [0.1, 1]}}
        keys = {"name": name, "trainable": "sweep_dummy:Dummy", "search_space": space}
        return make_spec({**keys, "stop": STOP, "objective": {"mode": mode}})

    done: dict[str, Any] = {"status": "finished", "env": "E", "measure": "last value", "trials": 4}
    done["env_steps"] = 1000
    rows = {"a": Row(**done, value=1.0), "b": Row(**{**done, "value": 2.0, **second})}
    return Matrix(Path("study"), {"a": spec("a"), "b": spec("b")}, rows)


def shown(matrix: Matrix) -> list[str]:
    console = Console(file=io.StringIO(), width=160)
    show_comparison(matrix, console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def on_disk(folder: Path, first: list[float], second: list[float], **more: Any) -> Matrix:
    """The matrix with runs of each sweep that end at these values."""
    found = matrix({}, **more)
    found.folder = folder
    for name, ends in (("a", first), ("b", second)):
        make_runs(folder, name, [[0.0, end] for end in ends])
    return found


LOW, HIGH = [1.0 + n / 100 for n in range(8)], [2.0 + n / 100 for n in range(8)]


@pytest.mark.parametrize(
    ("mode", "verdict"), [("max", "b is better than a"), ("min", "a is better than b")]
)
def test_the_verdict_is_that_of_compare(tmp_path: Path, mode: str, verdict: str) -> None:
    found = on_disk(tmp_path, LOW, HIGH, mode=mode)
    lines = shown(found)
    [told] = [line for line in lines if line.startswith(verdict)]
    assert [told] == compare(tmp_path, "episode_return_mean", mode).lines
    [by] = [line for line in lines if line.startswith("Compared by episode_return_mean (")]
    assert " at 200 environment steps, " in by
    assert f"Details of the comparison: tunescape compare {tmp_path}" in lines


def test_few_runs_have_no_winner(tmp_path: Path) -> None:
    assert any(
        line.startswith("Too few runs to compare")
        for line in shown(on_disk(tmp_path, LOW[:2], HIGH[:2]))
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda found: setattr(found.rows["b"], "env", "F"),
        lambda found: setattr(found.rows["b"], "value", None),
        lambda found: setattr(found.rows["b"], "status", "interrupted"),
    ],
)
def test_nothing_is_said_of_sweeps_that_cannot_be_compared(tmp_path: Path, change: Any) -> None:
    found = on_disk(tmp_path, LOW, HIGH)
    change(found)
    assert not [line for line in shown(found) if "better" in line or "compare" in line]


def test_why_sweeps_were_not_compared(tmp_path: Path) -> None:
    found = on_disk(tmp_path, LOW, HIGH)
    found.specs["b"].objective.mode = "min"
    assert "Not compared: the sweeps have different objectives." in shown(found)
    found = matrix({})
    found.folder = tmp_path / "gone"
    assert any(line.startswith("Not compared: ") for line in shown(found))


def test_the_value_of_a_sweep(tmp_path: Path) -> None:
    """The first trial's last value; of a final, its winner's on the held-out seeds."""
    lucky = {"rows": [row(1, 9.0), row(2, 3.0)]}
    folder = make_sweep(tmp_path, {"lucky": lucky, "good": {"rows": [row(1, 4.0)]}})
    spec = make_spec({"name": "s", "stop": STOP, "config": {"env": "CartPole-v1"}})
    outcome = Outcome(folder, folder, False, [], 2)  # type: ignore[arg-type]
    filled = Row()
    _fill(filled, outcome, spec)
    assert (filled.value, filled.measure, filled.trial) == (4.0, "last value", "good")
    assert filled.env_steps == 100
    won = Candidate("lucky", {}, 3.0, 9.0, values={7: 2.0, 8: 3.0})
    outcome.final = Final([won], won, [7, 8], folder / "final.json", None, [], False)
    _fill(filled, outcome, spec)
    assert (filled.value, filled.measure, filled.trial) == (2.5, "held-out IQM", "lucky")
    assert filled.env_steps == 200


def test_a_sweep_without_a_finite_value_has_none(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, {"t": {"rows": [row(1, float("nan"))]}})
    spec = make_spec({"name": "s", "stop": STOP, "config": {"env": "CartPole-v1"}})
    filled = Row(value=3.0, measure="last value")
    _fill(filled, Outcome(folder, folder, False, [], 1), spec)  # type: ignore[arg-type]
    assert filled.value is None and filled.measure == "" and "NaN" in filled.note


def test_the_next_command_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = matrix({"status": "failed"})
    found.folder = tmp_path / "my runs; [x]"
    assert any(
        line.startswith("Next: tunescape resume 'my runs; [x]' --retry-errored  #")
        for line in shown(found)
    )
    found.folder.mkdir()
    (found.folder / "matrix.yaml").touch()
    with pytest.raises(PreflightError, match=r"`tunescape resume 'my runs; \[x\]'`"):
        check_storage(tmp_path, found.folder)
