"""The Pareto front against an obvious loop, and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis_sweeps import make_sweep, row

from analysis import ResultsError, pareto_front, plot_pareto

RETURN = "episode_return_mean"


def random_trials(count: int) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
    """Finished trials with three metrics in a few steps each, so that there are ties."""
    generator = np.random.default_rng(3)
    values = {}
    for number in range(count):
        cost = generator.integers(1, 12)
        values[f"t{number:02d}"] = (
            float(np.round(10 * np.sqrt(cost) + generator.normal(0, 6))),
            float(cost),
            float(generator.integers(3)),
        )
    trials = {
        name: {"rows": [row(1, a, done=True, cost=b, size=c)], "config": {"lr": b / 100}}
        for name, (a, b, c) in values.items()
    }
    return trials, values


def test_front_against_a_loop(tmp_path: Path) -> None:
    trials, values = random_trials(40)
    objectives = [(RETURN, "max"), ("cost", "min"), ("size", "max")]
    front = pareto_front(make_sweep(tmp_path, trials), objectives)
    expected = set()
    for name, (a, b, c) in values.items():
        dominated = any(
            (x >= a and y <= b and z >= c) and (x > a or y < b or z > c)
            for x, y, z in values.values()
        )
        if not dominated:
            expected.add(name)
    assert set(front["trial_id"]) == expected
    assert 2 < len(expected) < 35
    assert list(front[RETURN]) == sorted(front[RETURN], reverse=True)
    assert front["optimal"].all()
    whole = pareto_front(make_sweep(tmp_path, trials, "again"), objectives, whole=True)
    assert len(whole) == 40 and whole["optimal"].sum() == len(front)


def test_ties_stay_and_unfinished_trials_do_not_count(tmp_path: Path) -> None:
    def trial(value: Any, cost: Any, **more: Any) -> dict[str, Any]:
        return {"rows": [row(1, 9.0, cost=0.0), row(2, value, done=True, cost=cost)], **more}

    trials = {
        "a": trial(1.0, 1.0),
        "b": trial(1.0, 1.0),
        "worse": trial(1.0, 2.0),
        "nan": trial(5.0, float("nan")),
        "error": trial(7.0, 0.0, status="ERROR"),
        "running": {"rows": [row(1, 7.0, cost=0.0)], "status": "RUNNING"},
    }
    sweep = make_sweep(tmp_path, trials)
    front = pareto_front(sweep, [(RETURN, "max"), ("cost", "min")])
    assert sorted(front["trial_id"]) == ["a", "b"]  # by the last row, not the best one
    with pytest.raises(ResultsError, match="did you mean 'cost'"):
        pareto_front(sweep, [(RETURN, "max"), ("costs", "min")])
    with pytest.raises(ResultsError, match="two objectives or more"):
        pareto_front(sweep, [(RETURN, "max")])
    with pytest.raises(ResultsError, match="'max' or 'min'"):
        pareto_front(sweep, [(RETURN, "max"), ("cost", "least")])


@pytest.mark.parametrize("modes", [("max", "min"), ("min", "min"), ("max", "max")])
def test_picture(modes: tuple[str, str], tmp_path: Path) -> None:
    trials, _ = random_trials(30)
    objectives = list(zip((RETURN, "cost"), modes, strict=True))
    out = plot_pareto(make_sweep(tmp_path, trials), objectives, tmp_path / "pareto.png")
    assert out.read_bytes()[:4] == b"\x89PNG" and out.stat().st_size > 10_000
    with pytest.raises(ResultsError, match="only two objectives"):
        plot_pareto(tmp_path / "sweep", [*objectives, ("size", "max")], out)
