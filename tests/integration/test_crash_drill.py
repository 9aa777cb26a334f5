"""A short crash drill; `experiments.benchmarks.crash_drill` is the long one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.benchmarks.crash_drill import check, drill


@pytest.mark.full(
    "integration/test_durability.py::test_a_killed_sweep_resumes_and_repeats_no_finished_trial"
)
def test_a_sweep_killed_twice_is_whole_in_the_end(tmp_path: Path) -> None:
    report = drill(tmp_path, kills=2, trials=6, seed=3, seconds=0.1)
    assert len(report.kills) == 2
    assert not report.problems, "\n".join(report.problems)
    # The checks can fail: a row that is lost, or a trial that ran once more, is found.
    sweep = tmp_path / "drill"
    rows = next(iter(sorted(sweep.glob("*/result.json"))))
    whole = rows.read_text()
    rows.write_text("".join(whole.splitlines(keepends=True)[1:]))
    assert any("not whole" in problem for problem in check(sweep, tmp_path, 6, 3))
    rows.write_text(whole)
    again = {**json.loads(whole.splitlines()[-1]), "num_env_steps_sampled_lifetime": 900}
    rows.write_text(whole + json.dumps(again) + "\n")
    assert any("MLflow" in problem for problem in check(sweep, tmp_path, 6, 3))
