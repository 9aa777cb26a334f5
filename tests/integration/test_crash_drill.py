"""A short crash drill; `experiments.benchmarks.crash_drill` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.benchmarks.crash_drill import drill


@pytest.mark.full(
    "integration/test_durability.py::test_a_killed_sweep_resumes_and_repeats_no_finished_trial"
)
def test_a_sweep_killed_twice_is_whole_in_the_end(tmp_path: Path) -> None:
    report = drill(tmp_path, kills=2, trials=8, seed=3, seconds=0.1)
    assert len(report.kills) == 2
    assert not report.problems, "\n".join(report.problems)
