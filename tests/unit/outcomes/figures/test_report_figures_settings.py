"""The report's importance bars, slices and contours: what the traces hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from settings_sweeps import log_uniform, sweep_of

from analysis.figures import theme
from analysis.figures.contours import draw_contour
from analysis.figures.effects import draw_effects, effects
from analysis.figures.importance import draw_importance, draw_interactions
from analysis.figures.slices import draw_slice
from analysis.importance.effects import effects_frame
from analysis.importance.scales import Scale
from analysis.overview.overview import ReportData, value_at
from analysis.report.sections import SECTIONS

METRIC = "episode_return_mean"
LEVELS = Scale("category", ("tanh", "relu"))
VALUES = pd.DataFrame(
    {
        "trial_id": ["a", "b", "c"],
        "value": [100.0, 50.0, 10.0],
        "status": "TERMINATED",
        "env_steps": [1000.0, 1000.0, 250.0],
        "lr": [1e-2, 1e-3, 1e-4],
        "gamma": [0.9, 0.99, 0.999],
        "act": ["relu", "tanh", "tanh"],
    }
)
IMPORTANCE = pd.DataFrame(
    {
        "rank": [1, 2],
        "setting": ["lr", "model/<b>"],
        "importance": [0.7, 0.2],
        "low": [0.6, 0.1],
        "high": [0.9, 0.25],
        "method": "fanova",
    }
)


def traces(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data}


def test_importance_is_a_bar_with_its_spread() -> None:
    figure = draw_importance(IMPORTANCE)
    assert isinstance(figure, go.Figure)
    bar = figure.data[0]
    np.testing.assert_allclose(bar.x, [0.7, 0.2], rtol=1e-6)
    assert bar.y.tolist() == [0, -1]  # the first one on top
    np.testing.assert_allclose(bar.error_x.array, [0.2, 0.05], rtol=1e-5)
    np.testing.assert_allclose(bar.error_x.arrayminus, [0.1, 0.1], rtol=1e-5)
    texts = [annotation.text for annotation in figure.layout.annotations]
    assert texts == ["lr", "<b>0.70</b>  0.60–0.90", "model/&lt;b&gt;", "<b>0.20</b>  0.10–0.25"]
    assert figure.layout.xaxis.range[1] > 0.9


def test_importance_says_how_far_it_is_to_be_trusted() -> None:
    frame = IMPORTANCE.copy()
    frame.attrs.update(r2=0.4789, caution="24 trials are few.")
    figure = draw_importance(frame)
    assert isinstance(figure, go.Figure)
    assert figure.layout.meta["caption"].endswith("did not see: 0.48. 24 trials are few.")


def test_an_interaction_names_both_settings() -> None:
    frame = pd.DataFrame({"setting": ["lr"], "other": ["gamma"], "interaction": [0.25]})
    figure = draw_interactions(frame)
    assert isinstance(figure, go.Figure)
    assert [a.text for a in figure.layout.annotations] == ["lr × gamma", "<b>0.25</b>"]
    assert draw_interactions(frame.iloc[:0]).startswith("No pair")  # type: ignore[union-attr]


ACTIVATIONS = sweep_of(
    lambda config: 10.0 * (config["act"] == "relu"),
    {"act": lambda rng: ("relu", "tanh")[rng.integers(2)], "b": lambda rng: int(rng.integers(3))},
)


def test_effects_are_rows_with_intervals_and_0_is_in_sight() -> None:
    frame = effects_frame(ACTIVATIONS)
    figure = draw_effects(frame)
    (certain,) = (t for t in figure.data if t.marker.color == theme.BLUE)
    (other,) = (t for t in figure.data if t.marker.color == theme.ORANGE)
    assert certain.y.tolist() == [0] and other.y.tolist() == [-1]  # the first one on top
    first = frame.iloc[0]
    np.testing.assert_allclose(certain.x, [first["effect"]], rtol=1e-6)
    np.testing.assert_allclose(
        [certain.x[0] - certain.error_x.arrayminus[0], certain.x[0] + certain.error_x.array[0]],
        [first["effect_low"], first["effect_high"]],
        rtol=1e-5,
    )
    assert figure.layout.annotations[0].text == "<b>act</b>"
    assert figure.layout.xaxis.range[0] <= 0 <= figure.layout.xaxis.range[1]
    meta = figure.layout.meta
    assert "`act`: relu (10.02), tanh (0.02" in meta["caption"] and meta["alt"].endswith(
        "Not 0: act."
    )


@pytest.mark.parametrize(
    ("spec", "drawn"),
    [
        ({}, True),
        ({"search": {"algorithm": "optuna"}}, False),
        ({"scheduler": {"algorithm": "asha"}}, False),
    ],
)
def test_effects_are_shown_where_trials_compare_settings(spec: dict[str, Any], drawn: bool) -> None:
    data = ReportData(ACTIVATIONS)
    data.spec = spec
    assert (effects(data) is not None) == drawn
    parts = [part for s in SECTIONS for part in s.parts if part.source.endswith(":effects")]
    assert len(parts) == 1 and (parts[0].draw(data) is not None) == drawn


def test_there_are_no_effects_of_a_setting_with_too_many_levels() -> None:
    assert effects(ReportData(sweep_of(lambda c: c["a"], {"a": log_uniform}))) is None


def test_a_slice_of_a_logarithmic_setting_has_a_logarithmic_axis() -> None:
    dependence = pd.DataFrame(
        {"lr": [1e-2, 1e-4], "mean": [90.0, 20.0], "low": [80.0, 15.0], "high": [95.0, 30.0]}
    )
    figure = draw_slice(VALUES, "lr", Scale("log"), METRIC, dependence)
    axis = figure.layout.xaxis
    assert axis.type == "log"
    assert list(axis.ticktext) == ["0.0001", "0.001", "0.01"]
    np.testing.assert_allclose(axis.tickvals, [1e-4, 1e-3, 1e-2])
    drawn = traces(figure)
    assert drawn["best"].x.tolist() == pytest.approx([1e-2])
    assert drawn["best"].marker.symbol == "star"
    assert drawn["trials"].y.tolist() == [50]
    assert drawn["stopped early"].y.tolist() == [10]
    assert drawn["stopped early"].marker.symbol == "circle-open"
    assert "Hollow" in figure.layout.meta["caption"]
    # Along the axis, whatever the order of the frame.
    assert drawn["partial dependence"].y.tolist() == [20, 90]
    assert drawn["spread of the partial dependence"].y.tolist() == [15, 80, 95, 30]
    assert figure.layout.yaxis.range[0] < 10
    assert figure.layout.yaxis.range[1] > 100


def test_values_at_a_budget_are_alike_and_the_axis_says_so() -> None:
    frame = pd.DataFrame(
        {
            "num_env_steps_sampled_lifetime": [100, 200, 300, 400],
            METRIC: [1.0, 2.0, float("nan"), 4.0],
        }
    )
    assert [value_at(frame, METRIC, budget) for budget in (250, 300, 400)] == [2, 2, 4]
    assert np.isnan(value_at(frame, METRIC, 50))
    figure = draw_slice(VALUES, "lr", Scale("log"), METRIC, at=12_345.0)
    assert figure.layout.yaxis.title.text == "mean episode return<br>at 12.3k steps"
    assert "stopped early" not in traces(figure)  # no trial's value is of less training


def test_a_slice_of_a_discount_is_drawn_by_its_distance_from_one() -> None:
    figure = draw_slice(VALUES, "gamma", Scale("one_minus"), METRIC)
    assert list(figure.layout.xaxis.ticktext) == ["0.9", "0.99", "0.999"]
    np.testing.assert_allclose(figure.layout.xaxis.tickvals, [1, 2, 3])
    assert traces(figure)["best"].x.tolist() == pytest.approx([1])


def test_a_slice_of_levels_has_a_place_for_each() -> None:
    dependence = pd.DataFrame(
        {"act": ["relu", "tanh"], "mean": [90.0, 20.0], "low": [80.0, 15.0], "high": [95.0, 30.0]}
    )
    figure = draw_slice(VALUES, "act", LEVELS, METRIC, dependence)
    assert list(figure.layout.xaxis.ticktext) == ["tanh", "relu"]
    drawn = traces(figure)
    assert drawn["partial dependence"].x.tolist() == [0, 1]
    assert drawn["partial dependence"].y.tolist() == [20, 90]
    assert drawn["partial dependence"].error_y.array.tolist() == [10, 5]
    assert abs(drawn["best"].x[0] - 1) < 0.2
    assert abs(drawn["stopped early"].x[0]) < 0.2
    assert "spread at random" in figure.layout.meta["caption"]
    ranged = draw_slice(VALUES, "lr", Scale("log"), METRIC)
    assert "beside each other" not in ranged.layout.meta["caption"]


def test_a_slice_of_a_thousand_trials_is_small() -> None:
    count = 1000
    values = pd.DataFrame(
        {
            "trial_id": [f"trial_{n:05d}" for n in range(count)],
            "value": np.linspace(1, 0, count),
            "env_steps": 10.0,
            "lr": np.geomspace(1e-5, 1e-2, count),
        }
    )
    figure = draw_slice(values, "lr", Scale("log"), METRIC)
    points = sum(len(trace.x) for trace in figure.data)
    assert points == 334
    assert "One in 3 of 1,000 trials" in figure.layout.meta["caption"]
    assert len(figure.to_json()) < 60_000


def test_a_contour_has_the_mean_of_each_pair_at_its_place() -> None:
    points = [(x, y) for x in (1e-4, 1e-3, 1e-2) for y in (0.9, 0.99)]
    dependence = pd.DataFrame(points, columns=["lr", "gamma"])
    dependence["mean"] = np.arange(6.0)
    scales = {"lr": Scale("log"), "gamma": Scale("one_minus")}
    figure = draw_contour(VALUES, ("lr", "gamma"), scales, METRIC, dependence)
    area = figure.data[0]
    assert area.type == "contour"
    assert area.z.tolist() == [[0, 2, 4], [1, 3, 5]]  # [gamma, lr]
    np.testing.assert_allclose(area.x, [-4, -3, -2])
    np.testing.assert_allclose(area.y, [1, 2])
    assert list(figure.layout.xaxis.ticktext) == ["0.0001", "0.001", "0.01"]
    np.testing.assert_allclose(figure.layout.xaxis.tickvals, [-4, -3, -2])
    best = traces(figure)["best"]
    np.testing.assert_allclose([best.x[0], best.y[0]], [-2, 1])


def test_levels_are_a_map_of_cells() -> None:
    dependence = pd.DataFrame(
        {"lr": [1e-4, 1e-2] * 2, "act": ["relu", "relu", "tanh", "tanh"], "mean": [1, 2, 3, 4]}
    )
    scales = {"lr": Scale("log"), "act": LEVELS}
    area = draw_contour(VALUES, ("lr", "act"), scales, METRIC, dependence).data[0]
    assert area.type == "heatmap"
    assert area.z.tolist() == [[3, 4], [1, 2]]


def test_labels_fit_beside_the_smallest_figures() -> None:
    """A title that is longer than its axis is cut off, and plotly drops a level at the edge."""
    levels = Scale("category", ("[64, 64]", "[256, 256, 256]"))
    values = VALUES.assign(hiddens=["[64, 64]", "[256, 256, 256]", "[64, 64]"])
    values = values.rename(columns={"hiddens": "policies/agent_0/model/fcnet_hiddens"})
    name, metric = str(values.columns[-1]), "evaluation/episode_return_mean"
    slice_ = draw_slice(values, name, levels, metric)
    assert list(slice_.layout.xaxis.ticktext) == ["[64, 64]", "[256, 256,<br>256]"]
    points = [(x, y) for x in (1e-4, 3e-3) for y in levels.levels]
    dependence = pd.DataFrame(points, columns=["lr", name]).assign(mean=np.arange(4.0))
    scales = {"lr": Scale("log"), name: levels}
    map_ = draw_contour(values, ("lr", name), scales, metric, dependence)
    bar = map_.data[0].colorbar.title.text
    assert bar == "mean episode return<br>(evaluation)"
    for axis in (slice_.layout.xaxis, slice_.layout.yaxis, map_.layout.yaxis):
        assert max(map(len, axis.title.text.split("<br>"))) <= 24, axis.title.text
    # The best trial, at 0.01, lies beyond the grid: its star is whole.
    assert map_.layout.xaxis.range[1] > -2
    assert theme.folded("a<b c", 3) == "a&lt;b<br>c" and theme.folded("lr", 3) == "lr"
