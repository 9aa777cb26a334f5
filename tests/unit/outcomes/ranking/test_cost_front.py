"""Return against cost: the front of trials, and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import make_sweep, row

from analysis import ResultsError, cost_front, plot_cost_front

RETURN = "episode_return_mean"


def trial(value: float | None, steps: int, seconds: float, **more: Any) -> dict[str, Any]:
    spent = {"num_env_steps_sampled_lifetime": steps, "time_total_s": seconds}
    return {"rows": [row(1, value, done=True, **spent, num_cpus=2)], **more}


TRIALS = {
    "cheap": trial(10, 100, 9.0),
    "dear": trial(30, 300, 3.0),
    "worse": trial(9, 200, 5.0),  # than cheap, for more steps, but in less time
    "equal": trial(30, 300, 4.0),
    "failed": trial(99, 1, 0.1, status="ERROR"),
    "silent": trial(None, 1, 0.1),
}


def test_front_by_steps_and_by_time(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, TRIALS)
    front = cost_front(sweep, RETURN)
    assert list(front["trial_id"]) == ["cheap", "dear", "equal"]  # equals are both on it
    assert list(front["env_steps"]) == [100, 300, 300]
    assert list(cost_front(sweep, RETURN, cost="wall_s")["trial_id"]) == ["dear"]
    # CPU seconds are those that were held: two CPUs for all the time.
    assert list(cost_front(sweep, RETURN, cost="cpu_s")["cpu_s"]) == [6]
    assert list(cost_front(sweep, RETURN, "min", cost="wall_s")["trial_id"]) == ["dear", "worse"]
    whole = cost_front(sweep, RETURN, whole=True)
    assert list(whole["optimal"]) == [True, True, True, False]
    assert whole["trial_id"].iloc[-1] == "worse"


def test_one_front_of_several_sweeps(tmp_path: Path) -> None:
    one = make_sweep(tmp_path, {"a": trial(10, 100, 1.0), "b": trial(20, 200, 1.0)}, "one")
    two = make_sweep(tmp_path, {"a": trial(15, 90, 1.0)}, "two")
    front = cost_front([one, two], RETURN)
    assert list(zip(front["sweep"], front["trial_id"], strict=True)) == [("two", "a"), ("one", "b")]


def test_picture_and_errors(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, TRIALS)
    out = plot_cost_front(sweep, RETURN, out=tmp_path / "cost.png")
    assert out.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ResultsError, match="one of env_steps, wall_s, cpu_s, gpu_s"):
        cost_front(sweep, RETURN, cost="euros")
    with pytest.raises(ResultsError, match="did you mean 'episode_return_mean'"):
        cost_front(sweep, "episode_return")
    with pytest.raises(ResultsError, match="known gpu_s"):
        cost_front(sweep, RETURN, cost="gpu_s")
