"""A short crash drill; `experiments.benchmarks.crash_drill` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.benchmarks.crash_drill import drill


@pytest.mark.full("integration/test_tuner.py::test_resume_keeps_what_was_finished")
def test_a_sweep_killed_twice_is_whole_in_the_end(tmp_path: Path) -> None:
    report = drill(tmp_path, kills=2, trials=8, seed=3, seconds=0.1)
    assert len(report.kills) == 2
    assert not report.problems, "\n".join(report.problems)
