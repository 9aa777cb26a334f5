"""The report's parallel coordinates: what the traces hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis.figures import theme
from analysis.figures.parallel import draw_parallel, line_color
from analysis.importance.scales import Scale

METRIC = "episode_return_mean"
SCALES = {"lr": Scale("log"), "model/act": Scale("category", ("tanh", "relu"))}
VALUES = pd.DataFrame(
    {
        "trial_id": ["a", "b", "c"],
        "value": [100.0, 50.0, 0.0],
        "lr": [1e-2, 1e-3, 1e-4],
        "model/act": ["relu", "tanh", "relu"],
    }
)


def drawn(values: pd.DataFrame, mode: str = "max") -> go.Figure:
    figure = draw_parallel(values, SCALES, METRIC, mode)
    assert isinstance(figure, go.Figure)
    return figure


def test_lines_run_through_the_settings_on_their_scales() -> None:
    lines = {trace.name: trace for trace in drawn(VALUES).data}
    assert list(lines) == ["c", "b", "a"]  # the best one on top
    # lr on its log axis; relu is the second of two levels, its two trials side by side.
    np.testing.assert_allclose(lines["a"].x, [1.0, 0.625, 1.0], atol=1e-6)
    np.testing.assert_allclose(lines["b"].x, [0.5, 0.25, 0.5], atol=1e-6)
    np.testing.assert_allclose(lines["c"].x, [0.0, 0.875, 0.0], atol=1e-6)
    assert lines["a"].y.tolist() == [0, -1, -2]
    assert "lr = 0.01" in lines["a"].hovertemplate
    assert "value 100" in lines["a"].hovertemplate


def test_axes_are_named_and_have_the_settings_own_ticks() -> None:
    annotations = drawn(VALUES).layout.annotations
    texts = [annotation.text for annotation in annotations]
    assert "<b>lr</b>" in texts
    assert "<b>mean episode return</b>" in texts
    ticks = {a.text: a.x for a in annotations if a.y == 0 and not a.text.startswith("<b>")}
    assert ticks == pytest.approx({"0.0001": 0.0, "0.001": 0.5, "0.01": 1.0})


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_best_is_orange_in_either_mode(mode: str) -> None:
    values = VALUES if mode == "max" else VALUES.iloc[::-1]
    lines = drawn(values, mode).data
    best, worst = lines[-1], lines[0]
    assert best.line.color == theme.rgba(theme.ORANGE, 1)
    assert worst.line.color.startswith(theme.rgba(theme.GREY, 1)[:-2])
    assert best.line.width > worst.line.width


def test_a_missing_setting_is_a_gap_and_not_an_end() -> None:
    values = VALUES.assign(lr=[1e-2, np.nan, 1e-4])
    line = next(trace for trace in drawn(values).data if trace.name == "b")
    assert np.isnan(line.x[0])
    assert line.connectgaps


def test_of_many_trials_the_best_and_a_sample_are_drawn() -> None:
    count = 1000
    values = pd.DataFrame(
        {
            "trial_id": [f"t{n}" for n in range(count)],
            "value": np.linspace(100, 0, count),
            "lr": np.geomspace(1e-5, 1e-2, count),
            "model/act": ["tanh", "relu"] * (count // 2),
        }
    )
    figure = drawn(values)
    names = [trace.name for trace in figure.data]
    assert len(names) == len(set(names)) == 100
    assert {f"t{n}" for n in range(30)} <= set(names)
    assert {"t0", "t999"} <= set(names)
    assert "Of 1,000 trials the best 30" in figure.layout.meta["caption"]
    assert len(figure.to_json()) < 100_000


def test_why_there_is_no_figure() -> None:
    assert draw_parallel(VALUES, {}, METRIC, "max") is None
    assert "two trials" in str(draw_parallel(VALUES.iloc[:1], SCALES, METRIC, "max"))


def test_colours_between_two_are_mixed() -> None:
    assert line_color(0.5) == theme.rgba(theme.BLUE, 1)
    assert line_color(0.75) == "rgba(124,114,110,1)"
