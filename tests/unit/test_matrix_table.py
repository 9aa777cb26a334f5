"""The comparison of a matrix's sweeps: what each one's value is, and when there is a winner."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import make_sweep, row
from rich.console import Console

from analysis.held_out import Candidate
from experiments.errors import PreflightError
from experiments.final import Final
from experiments.matrix_runner import _fill
from experiments.matrix_state import Matrix, Row
from experiments.matrix_table import _winners, show_comparison
from experiments.preflight import check_storage
from experiments.runner import Outcome
from experiments.spec import make_spec

STOP = {"num_env_steps_sampled_lifetime": 1000}


def matrix(second: dict[str, Any], stop: dict[str, Any] = STOP, mode: str = "max") -> Matrix:
    """Two sweeps on one environment, of which the second has the larger value."""

    def spec(name: str, stop: dict[str, Any]) -> Any:
        space = {"lr": {"uniform": [0.1, 1]}}
        keys = {"name": name, "trainable": "sweep_dummy:Dummy", "search_space": space}
        return make_spec({**keys, "stop": stop, "objective": {"mode": mode}})

    done: dict[str, Any] = {"status": "finished", "env": "E", "measure": "last value", "trials": 4}
    rows = {"a": Row(**done, value=1.0), "b": Row(**{**done, "value": 2.0, **second})}
    return Matrix(Path("study"), {"a": spec("a", STOP), "b": spec("b", stop)}, rows)


def test_the_best_on_one_environment_wins() -> None:
    assert _winners(matrix({})) == ({"b"}, [])
    assert _winners(matrix({}, mode="min")) == ({"a"}, [])
    assert _winners(matrix({"value": 1.0})) == ({"a", "b"}, [])
    assert _winners(matrix({"env": "F"})) == (set(), [])
    assert _winners(matrix({"value": None, "status": "failed"})) == (set(), [])


@pytest.mark.parametrize(
    ("second", "stop", "why"),
    [
        ({"trials": 8}, STOP, "number of trials"),
        ({}, {"num_env_steps_sampled_lifetime": 2000}, "stop"),
        ({"measure": "held-out IQM"}, STOP, "having a final"),
        ({"status": "interrupted"}, STOP, "status"),
    ],
)
def test_no_winner_where_the_chances_were_unequal(
    second: dict[str, Any], stop: dict[str, Any], why: str
) -> None:
    unequal = matrix(second, stop)
    reason = f"No winner on E: the sweeps differ in {why}."
    assert _winners(unequal) == (set(), [reason])
    console = Console(file=io.StringIO(), width=160)
    show_comparison(unequal, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert reason in shown and "measured by" in shown and second.get("measure", "last") in shown


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
    console = Console(file=io.StringIO(), width=160)
    show_comparison(found, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Next: tunescape resume 'my runs; [x]' --retry-errored  #" in shown
    found.folder.mkdir()
    (found.folder / "spec.yaml").touch()
    with pytest.raises(PreflightError, match=r"`tunescape resume 'my runs; \[x\]'`"):
        check_storage(tmp_path, found.folder)
