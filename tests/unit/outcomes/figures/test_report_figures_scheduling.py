"""The report's rungs, lineage and schedule: what the traces hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from analysis_sweeps import make_sweep, row

from analysis.figures.lineage import draw_tree
from analysis.figures.rungs import (
    budgets,
    draw_budgets,
    draw_rungs,
    final_cutoffs,
    rung_levels,
    rung_table,
    rungs,
)
from analysis.figures.schedule import draw_schedule
from analysis.importance.scales import Scale
from analysis.names import ENV_STEPS
from analysis.overview.lineage import Exploit
from analysis.overview.overview import ReportData
from analysis.results.load import load_sweep

METRIC = "episode_return_mean"
ASHA = {"algorithm": "asha", "max_t": 400, "grace_period": 100, "reduction_factor": 2.0}


def named(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data}


def test_rungs_are_those_of_the_scheduler() -> None:
    assert rung_levels(ASHA) == [100, 200, 400]
    assert rung_levels({**ASHA, "max_t": 500}) == [100, 200, 400, 500]
    # HyperBand divides the full budget: its first rung is not the grace period.
    hyperband = {**ASHA, "algorithm": "hyperband", "max_t": 900, "reduction_factor": 3}
    assert rung_levels(hyperband) == [100, 300, 900]
    assert rung_levels({**hyperband, "max_t": 1000}) == pytest.approx([111.1111, 333.3333, 1000])
    assert rung_levels({"algorithm": "fifo"}) == []


def test_rungs_are_where_ray_has_them() -> None:
    from ray.tune.schedulers import async_hyperband as asha

    for most, grace, factor in ((400, 100, 2.0), (49152, 12288, 2.0), (1000, 10, 3), (81, 1, 4)):
        bracket = asha._Bracket(grace, most, factor, 0)
        rungs = sorted(milestone for milestone, _ in bracket._rungs)
        levels = rung_levels(
            {"algorithm": "asha", "max_t": most, "grace_period": grace, "reduction_factor": factor}
        )
        assert [level for level in levels if level in rungs] == rungs
        recorded = {f"t{n}": float(n**2) for n in range(7)}
        table = pd.DataFrame({"rung": 0, "value": list(recorded.values())})
        cutoffs = final_cutoffs(table, levels, factor, "max")
        assert cutoffs[0] == pytest.approx(bracket.cutoff(recorded))


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    trials = {
        "best": {"rows": [row(1, 5.0), row(2, 7.0), row(3, 8.0), row(4, 9.0, done=True)]},
        "half": {"rows": [row(1, 6.0), row(2, 4.0, done=True)]},
        "bad": {"rows": [row(1, 1.0, done=True)]},
        "broken": {"rows": [row(1, 2.0)], "status": "ERROR"},
        "early": {"rows": [row(1, None)], "status": "RUNNING"},
    }
    return make_sweep(tmp_path, trials)


def test_each_trial_is_at_the_rungs_that_it_reached(sweep: Path) -> None:
    table = rung_table(load_sweep(sweep).trials, rung_levels(ASHA), ENV_STEPS, METRIC)
    found = {
        str(trial): list(zip(rows["budget"], rows["value"], rows["fate"], strict=True))
        for trial, rows in table.groupby("trial_id")
    }
    assert found["best"] == [
        (100, 5.0, "went on"),
        (200, 7.0, "went on"),
        (400, 9.0, "ran to the end"),
    ]
    assert found["half"] == [(100, 6.0, "went on"), (200, 4.0, "stopped")]
    assert found["bad"] == [(100, 1.0, "stopped")]
    assert found["broken"] == [(100, 2.0, "failed")]
    assert found["early"][0][2] == "runs or waits"
    assert final_cutoffs(table, rung_levels(ASHA), 2.0, "max") == {0: 3.5, 1: 5.5}


def test_the_picture_of_the_rungs(sweep: Path) -> None:
    levels = rung_levels(ASHA)
    table = rung_table(load_sweep(sweep).trials, levels, ENV_STEPS, METRIC)
    figure = draw_rungs(table, levels, {0: 3.5, 1: 5.5}, METRIC, ENV_STEPS)
    traces = named(figure)
    assert sorted(traces["went on"].y.tolist()) == [5, 6, 7]
    assert sorted(traces["stopped"].y.tolist()) == [1, 4]
    assert traces["failed"].y.tolist() == [2]
    assert "runs or waits" not in traces  # it has no value
    assert list(figure.layout.xaxis.ticktext) == [
        "100<br>4 trials",
        "200<br>2 trials",
        "400<br>1 trial",
    ]
    assert [t.y[0] for t in figure.data if t.name == "cut-off"] == [3.5, 5.5]
    # Every point lies within the room of its rung.
    assert np.all(np.abs(traces["went on"].x - np.round(traces["went on"].x)) <= 0.3)


def test_rungs_without_a_finite_value_are_said(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, {"t": {"rows": [row(1, float("nan"))]}})
    (folder / "spec.yaml").write_text(json.dumps({"scheduler": ASHA}))
    assert rungs(ReportData(folder)) == (
        f"No trial has a finite {METRIC} at a rung; the first is 100."
    )


def test_the_budget_of_each_trial(sweep: Path) -> None:
    levels = rung_levels(ASHA)
    figure = draw_budgets(budgets(load_sweep(sweep).trials, ENV_STEPS), levels, ENV_STEPS)
    traces = named(figure)
    assert traces["ran to the end"].y.tolist() == [400]
    assert traces["stopped"].x.tolist() == [2, 3]
    assert traces["stopped"].y.tolist() == [200, 100]
    assert traces["failed"].y.tolist() == [100]
    assert [shape.y0 for shape in figure.layout.shapes] == [100, 200, 400]
    # 900 steps of 5 x 400.
    assert "Together 900 environment steps" in figure.layout.meta["caption"]
    assert "2.2 times as much" in figure.layout.meta["caption"]


def exploit(number: int, trial: str, donor: str, budget: float, lr: float) -> Exploit:
    return Exploit(
        number=number,
        trial=trial,
        donor=donor,
        budget=budget,
        donor_budget=budget,
        time_attr=ENV_STEPS,
        score=1.0,
        donor_score=2.0,
        before={"lr": 1.0, "model.act": "tanh"},
        donor_settings={"lr": 1e-3, "model.act": "tanh"},
        after={"lr": lr, "model.act": "tanh"},
    )


EXPLOITS = [exploit(1, "b", "a", 1000, 5e-3), exploit(2, "c", "b", 2000, 1e-2)]


def test_the_winners_line_of_descent_is_blue() -> None:
    figure = draw_tree(EXPLOITS, {"a": 3000.0, "b": 3000.0, "c": 3000.0}, "c")
    traces = named(figure)
    descent = traces["descent of the winner"]
    np.testing.assert_equal(
        descent.x, np.float32([0, 1000, np.nan, 1000, 2000, np.nan, 2000, 3000, np.nan])
    )
    np.testing.assert_equal(descent.y, np.float32([0, 0, np.nan, -1, -1, np.nan, -2, -2, np.nan]))
    assert traces["given up"].x.tolist() == [1000, 2000]
    assert traces["given up"].y.tolist() == [-1, -2]
    text = traces["clone and donor"].text[0]
    assert text.startswith("<b>b</b> continues from <b>a</b>")
    assert "lr: 0.001 → 0.005" in text
    assert "act" not in text  # what did not change is not told
    assert list(figure.layout.yaxis.ticktext) == ["a", "b", "<b>c</b>"]


def test_of_a_large_population_the_ancestors_are_kept() -> None:
    ends = {f"t{n}": 3000.0 for n in range(100)} | {"a": 3000.0, "b": 3000.0, "c": 3000.0}
    figure = draw_tree(EXPLOITS, ends, "c")
    texts = list(figure.layout.yaxis.ticktext)
    assert len(texts) == 40
    assert texts[-3:] == ["a", "b", "<b>c</b>"]
    assert "40 of 103 trials" in figure.layout.meta["caption"]


def test_the_schedule_goes_in_steps_on_the_settings_own_scale() -> None:
    frame = pd.DataFrame({"budget": [0.0, 1000.0], "lr": [1e-4, 1e-2], "model/act": ["tanh"] * 2})
    scales = {"lr": Scale("log"), "model/act": Scale("category", ("tanh",))}
    figure = draw_schedule(frame, scales, 3000.0, ENV_STEPS)
    lr = figure.data[0]
    assert lr.x.tolist() == [0, 1000, 3000]
    np.testing.assert_allclose(lr.y, [1e-4, 1e-2, 1e-2], rtol=1e-6)
    assert lr.line.shape == "hv"
    assert figure.layout.yaxis.type == "log"
    assert list(figure.layout.yaxis2.ticktext) == ["tanh"]
    assert figure.layout.xaxis2.range == (0, 3000)
    assert figure.layout.meta["alt"].startswith("The winner's 2 settings")
    assert [a.text for a in figure.layout.annotations] == ["<b>lr</b>", "<b>model/act</b>"]
