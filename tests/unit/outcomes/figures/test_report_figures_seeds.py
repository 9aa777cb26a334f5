"""The report's seeds, held-out values and costs: what the traces hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from analysis_sweeps import make_sweep, row

from analysis import load_sweep, pareto_front
from analysis.figures.common import end_labels
from analysis.figures.curves import Line
from analysis.figures.estimates import Estimate, draw_estimates
from analysis.figures.pareto import draw_front
from analysis.figures.seeds import (
    draw_groups,
    draw_held_out,
    draw_seed_curves,
    draw_seed_values,
    seed_curves,
)
from analysis.names import ENV_STEPS
from analysis.overview.groups import Group
from analysis.statistics import iqm, iqm_interval

METRIC = "episode_return_mean"


def named(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data}


def test_each_seed_has_its_curve_and_their_mean_is_bold(tmp_path: Path) -> None:
    rows = [
        row(n, 2.0 * n, **{f"seed_0/{METRIC}": 1.0 * n, f"seed_1/{METRIC}": 3.0 * n})
        for n in range(1, 4)
    ]
    rows[1][f"seed_1/{METRIC}"] = float("nan")
    (trial,) = load_sweep(make_sweep(tmp_path, {"t": {"rows": rows}})).trials
    curves = seed_curves(trial, METRIC, [0, 1, 2], ENV_STEPS)
    assert {seed: y.tolist() for seed, (_, y) in curves.items()} == {0: [1, 2, 3], 1: [3, 9]}
    assert curves[1][0].tolist() == [100, 300]
    whole = Line("t", np.array([100.0, 300.0]), np.array([2.0, 6.0]), np.array([1.0, 3.0]),
                 np.array([3.0, 9.0]))  # fmt: skip
    figure = draw_seed_curves(curves, whole, METRIC)
    traces = named(figure)
    assert traces["IQM"].y.tolist() == [2, 6]
    assert traces["interval"].y.tolist() == [1, 3, 9, 3]
    assert traces["IQM"].line.width > traces["seed 0"].line.width
    assert [a.text for a in figure.layout.annotations] == ["seed 0", "seed 1", "IQM"]
    assert traces["seed 0"].line.dash != traces["seed 1"].line.dash


def test_names_at_the_top_are_not_cut_off() -> None:
    figure = go.Figure()
    end_labels(figure, [(1.0, 100.0, "a"), (1.0, 100.0, "b"), (1.0, 0.0, "c")], 300, 0.0, 100.0)
    heights = {a.text: a.y * 3 + a.yshift for a in figure.layout.annotations}
    assert max(heights.values()) == 300
    assert sorted(heights.values()) == [0, 283, 300]


def test_last_values_have_the_iqm_and_its_interval() -> None:
    values = {"a": np.array([1.0, 2.0, 3.0, 4.0, 90.0]), "b": np.array([1.0, 2.0, 2.0, 2.0, 3.0])}
    figure = draw_seed_values(values, METRIC)
    blue = next(t for t in figure.data if t.name == "IQM, interval" and t.y[0] == 0)
    low, high = iqm_interval(values["a"])
    assert blue.x.tolist() == [iqm(values["a"])] == [3]
    np.testing.assert_allclose(blue.error_x.array, [high - 3], rtol=1e-5)
    np.testing.assert_allclose(blue.error_x.arrayminus, [3 - low], rtol=1e-5)
    points = named(figure)["seeds"]
    assert sorted(points.x[points.y == 0].tolist()) == [1, 2, 3, 4, 90]
    assert "too narrow" in figure.layout.meta["caption"]


def test_a_seed_for_each_trial_makes_a_row_for_each_configuration() -> None:
    found = [
        Group({"lr": 1e-3}, {0: 4.0, 1: 6.0}, 0, 5.0, 4.0, 6.0),
        Group({}, {0: 1.0}, 0, 1.0, 1, 1),
    ]
    figures = draw_groups(found, METRIC)
    assert figures is not None
    assert named(figures[0])["seeds"].x.tolist() == [4, 6, 1]
    texts = [annotation.text for annotation in figures[0].layout.annotations]
    assert texts == ["<b>1: 0.001</b>", "5 (4 to 6)", "all runs", "1 (1 to 1)"]
    assert figures[0].layout.meta["caption"].startswith("Rows: `lr`. Lines:")
    hovered = [trace.text[0] for trace in figures[0].data if trace.text is not None]
    assert "<b>1: lr = 0.001</b><br>5 (4 to 6)" in hovered
    assert draw_groups([], METRIC) is None


FINAL = {
    "metric": METRIC,
    "winner": "b",
    "caution": "Few seeds.",
    "winner_caution": "",
    "configurations": [
        {"trial_id": "a", "search_last": 50.0, "held_out_iqm": 40.0, "held_out_low": 30.0,
         "held_out_high": 45.0, "values": {"7": 38.0, "8": 42.0}},
        {"trial_id": "b", "search_last": 48.0, "held_out_iqm": 44.0, "held_out_low": None,
         "held_out_high": None, "values": {"7": 43.0, "8": 45.0}},
        {"trial_id": "c", "search_last": 47.0, "held_out_iqm": None, "held_out_low": None,
         "held_out_high": None, "values": {"7": 43.0}},
    ],
}  # fmt: skip


def test_held_out_values_stand_beside_the_searchs() -> None:
    figure = draw_held_out(FINAL)
    assert isinstance(figure, go.Figure)
    traces = named(figure)
    assert traces["held-out runs"].x.tolist() == [38, 42, 43, 45]
    assert traces["search's estimate"].x.tolist() == [50, 48]
    texts = [annotation.text for annotation in figure.layout.annotations]
    assert texts == ["1: a", "40 (30 to 45)", "<b>2: b</b>", "44"]  # c was not judged
    assert "Few seeds." in figure.layout.meta["caption"]
    assert draw_held_out({"configurations": []}) == (
        "No configuration has two finished held-out runs."
    )


def test_rows_beyond_a_page_are_left_out_and_said() -> None:
    rows = [Estimate(f"r{n}", float(n)) for n in range(30)]
    figure = draw_estimates(rows, "value", value_name="mean", alt="rows")
    assert "The first 20 of 30." in figure.layout.meta["caption"]
    assert sum(len(trace.x) for trace in figure.data) == 20
    dash = draw_estimates([Estimate("x", float("nan"))], "value", value_name="mean", alt="rows")
    assert dash.layout.annotations[1].text == "–"


def front(tmp_path: Path) -> pd.DataFrame:
    ends = {"cheap": (1.0, 10.0), "dear": (9.0, 100.0), "worse": (0.5, 50.0), "mid": (5.0, 40.0)}
    trials = {
        name: {"rows": [row(1, value, done=True, time_total_s=seconds)], "config": {"lr": value}}
        for name, (value, seconds) in ends.items()
    }
    objectives = [(METRIC, "max"), ("time_total_s", "min")]
    return pareto_front(make_sweep(tmp_path, trials), objectives, whole=True)


def test_the_front_is_a_step_along_the_optimal_trials(tmp_path: Path) -> None:
    figure = draw_front(front(tmp_path), [("time_total_s", "min"), (METRIC, "max")])
    assert isinstance(figure, go.Figure)
    traces = named(figure)
    assert traces["front"].x.tolist() == [10, 40, 100]
    assert traces["front"].y.tolist() == [1, 5, 9]
    assert traces["front"].line.shape == "hv"  # what costs more is dominated up to the next one
    assert traces["dominated (1)"].y.tolist() == [0.5]
    assert traces["optimal (3)"].text[0].startswith("<b>cheap</b><br>training time")
    assert "lr = 1" in traces["optimal (3)"].text[0]
    assert figure.layout.xaxis.title.text == "training time (s), lower is better"
    assert figure.layout.xaxis.type == "linear"


def test_where_more_is_better_across_the_step_turns_round(tmp_path: Path) -> None:
    figure = draw_front(front(tmp_path), [(METRIC, "max"), ("time_total_s", "min")])
    assert isinstance(figure, go.Figure)
    line = named(figure)["front"]
    assert line.x.tolist() == [1, 5, 9]
    assert line.y.tolist() == [10, 40, 100]
    assert line.line.shape == "vh"


def test_costs_that_span_decades_are_logarithmic(tmp_path: Path) -> None:
    frame = front(tmp_path)
    frame["time_total_s"] = frame["time_total_s"] ** 2
    figure = draw_front(frame, [("time_total_s", "min"), (METRIC, "max")])
    assert isinstance(figure, go.Figure)
    assert figure.layout.xaxis.type == "log"
    # 100 to 10,000 s in hours.
    assert figure.layout.xaxis.range[0] < np.log10(100 / 3600)
    assert figure.layout.xaxis.range[1] > np.log10(10_000 / 3600)
    assert named(figure)["front"].x.tolist() == pytest.approx([100 / 3600, 1600 / 3600, 10 / 3.6])


def test_an_empty_front_is_said(tmp_path: Path) -> None:
    empty = front(tmp_path).iloc[:0]
    assert draw_front(empty, [("a", "min"), ("b", "max")]) == (
        "No trial ended with finite objectives."
    )
