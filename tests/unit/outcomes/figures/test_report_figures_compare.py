"""The report's figures of several algorithms: what the traces hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from analysis_sweeps import make_sweep, row

from analysis.comparison.comparison import compare
from analysis.figures import theme
from analysis.figures.comparison import (
    comparison_figures,
    draw_compared_curves,
    draw_improvement,
    draw_iqm,
    draw_profiles,
)
from analysis.statistics.profiles import performance_profile

METRIC = "episode_return_mean"
STEPS = "num_env_steps_sampled_lifetime"
SCORES = {"PPO": np.array([4.0, 5.0, 6.0, 7.0]), "DQN": np.array([1.0, 2.0, 3.0, 8.0])}


def named(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data}


def test_curves_of_algorithms_differ_in_colour_and_in_dash() -> None:
    rows = [
        (name, share, 1000 * share, share * top, share * top - 1, share * top + 1)
        for name, top in (("PPO", 10.0), ("DQN", 5.0))
        for share in (1.0, 0.5)
    ]
    curves = pd.DataFrame(rows, columns=["algorithm", "share", "budget", "iqm", "low", "high"])
    figure = draw_compared_curves(curves, METRIC, STEPS)
    assert isinstance(figure, go.Figure)
    traces = named(figure)
    assert traces["PPO"].x.tolist() == [500, 1000]
    assert traces["PPO"].y.tolist() == [5, 10]
    assert traces["PPO interval"].y.tolist() == [4, 9, 11, 6]
    assert traces["PPO"].line.color != traces["DQN"].line.color
    assert traces["PPO"].line.dash != traces["DQN"].line.dash
    assert figure.layout.xaxis.range == (0, 1000)
    # Tasks with different budgets have only shares in common.
    shares = draw_compared_curves(curves.assign(budget=np.nan), METRIC, None)
    assert isinstance(shares, go.Figure)
    assert named(shares)["PPO"].x.tolist() == [0.5, 1.0]
    assert shares.layout.xaxis.tickformat == ".0%"


SUMMARY = pd.DataFrame(
    {
        "algorithm": ["PPO", "DQN"],
        "iqm": [5.5, 2.5],
        "iqm_low": [4.5, 1.5],
        "iqm_high": [6.5, 5.5],
    }
)


def test_an_interquartile_mean_stands_among_its_runs() -> None:
    figure = draw_iqm(SUMMARY, METRIC, "max", SCORES)
    assert isinstance(figure, go.Figure) and figure.layout.meta["title"] == "Interquartile mean"
    runs, *estimates = figure.data
    assert sorted(runs.x.tolist()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {trace.y[0]: trace.marker.color for trace in estimates} == {
        0: theme.BLUE,
        -1: theme.ORANGE,
    }
    assert {trace.y[0]: trace.x.tolist() for trace in estimates} == {0: [5.5], -1: [2.5]}
    assert [a.text for a in figure.layout.annotations][::2] == ["<b>PPO</b>", "DQN"]


def test_of_what_is_minimised_the_least_is_the_best() -> None:
    figure = draw_iqm(SUMMARY, METRIC, "min", SCORES)
    assert isinstance(figure, go.Figure)
    assert [a.text for a in figure.layout.annotations][::2] == ["PPO", "<b>DQN</b>"]
    assert draw_iqm(SUMMARY.assign(iqm=np.nan), METRIC, "max", SCORES) == "No score is finite."


def test_profiles_are_the_shares_above_each_threshold() -> None:
    frame = performance_profile(SCORES, [0.0, 4.5, 9.0], resamples=200)
    figure = draw_profiles(frame, METRIC)
    assert isinstance(figure, go.Figure)
    traces = named(figure)
    assert traces["PPO"].x.tolist() == [0, 4.5, 9]
    assert traces["PPO"].y.tolist() == [1, 0.75, 0]
    assert traces["DQN"].y.tolist() == [1, 0.25, 0]


def pairs(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["a", "b", "probability", "low", "high"])


def test_the_matrix_has_each_pair_both_ways() -> None:
    figure = draw_improvement(pairs(("PPO", "DQN", 0.8, 0.6, 1.0 + 1e-12)))
    assert isinstance(figure, go.Figure)
    cells = figure.data[0]
    np.testing.assert_allclose(cells.z, [[np.nan, 0.8], [0.2, np.nan]], rtol=1e-6)
    assert cells.text[0][1] == "<b>0.80</b><br>0.60–1.00"
    assert cells.text[1][0] == "<b>0.20</b><br>0.00–0.40"  # not -0.00
    assert cells.customdata[0][1] == "P(PPO better than DQN) = 0.8 0.60–1.00"
    assert list(figure.layout.yaxis.ticktext) == ["PPO  1", "DQN  2"]
    assert figure.layout.yaxis.range == (1.5, -0.5)  # the first row on top


def test_the_cells_of_a_large_matrix_are_percents() -> None:
    names = "abcdefg"
    rows = [(x, y, 0.75, 0.5, 0.9) for x in names for y in names if x < y]
    figure = draw_improvement(pairs(*rows))
    assert isinstance(figure, go.Figure)
    assert figure.data[0].text[0][1] == "75"
    assert figure.data[0].text[1][0] == "25"
    assert "in percent" in figure.layout.meta["caption"]


def test_nothing_to_compare_is_said() -> None:
    assert draw_profiles(pd.DataFrame(), METRIC) == "No scores to compare."
    assert draw_improvement(pd.DataFrame()) == "No pair to compare."


def test_a_comparison_is_four_figures(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, top in (("good", 90.0), ("bad", 10.0)):
        trials = {
            f"{name}{seed}": {
                "config": {"seed": seed, "env": "E"},
                "rows": [row(n, top * n / 4 + rng.normal(), done=n == 4) for n in range(1, 5)],
            }
            for seed in range(5)
        }
        make_sweep(tmp_path, trials, name)
    found = compare([tmp_path / "good", tmp_path / "bad"], METRIC, resamples=200)
    figures = comparison_figures(found)
    assert [figure.layout.meta["title"] for figure in figures] == [
        "Learning curves",
        "Interquartile mean",
        "Performance profiles",
        "Probability of improvement",
    ]
    curves, values, profiles, matrix = figures
    assert len(named(values)["runs"].x) == 10
    assert named(curves)["good"].x[-1] == 400
    assert named(profiles)["good"].y[0] == 1
    assert matrix.data[0].z[0][1] == 1
