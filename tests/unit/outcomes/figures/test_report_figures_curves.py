"""The report's learning curves: what the traces hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from analysis_sweeps import make_sweep, row

from analysis.figures.common import spread
from analysis.figures.curves import Line, draw_curves, line_of
from analysis.results.load import load_sweep

METRIC = "episode_return_mean"


def line(name: str, values: list[float], step: float = 1000.0, **more: object) -> Line:
    x = step * np.arange(1, len(values) + 1)
    return Line(name, x, np.array(values), **more)  # type: ignore[arg-type]


def drawn(lines: list[Line], **more: object) -> go.Figure:
    figure = draw_curves(lines, METRIC, **more)  # type: ignore[arg-type]
    assert isinstance(figure, go.Figure)
    return figure


def named(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data}


def test_best_median_and_others() -> None:
    lines = [line("best", [1, 5, 9]), line("b", [1, 4, 8]), line("c", [0, 3, 1])]
    traces = named(drawn(lines))
    assert list(traces) == ["c", "b", "median", "best"]  # the best is drawn last, on top
    assert traces["best"].y.tolist() == [1, 5, 9]
    assert traces["median"].y.tolist() == [1, 4, 8]
    assert traces["best"].x.dtype == np.float32
    assert traces["best"].line.width > traces["b"].line.width
    texts = [a.text for a in drawn(lines).layout.annotations]
    assert texts == ["best", "median"]


def test_hover_names_the_trial_and_its_settings_as_plain_text() -> None:
    lines = [line("a<b>", [1.0], settings={"lr": 3e-4, "model/act": "tanh"}), line("b", [1.0])]
    best = drawn(lines).data[-1]
    assert best.hovertemplate == (
        "<b>a&lt;b&gt;</b>: %{y:.4~g} at %{x:.4~s}<br>lr = 0.0003<br>model/act = tanh"
        "<extra></extra>"
    )
    assert best.mode == "lines+markers"  # of one point no line would be seen


def test_the_best_ones_interval_is_a_band() -> None:
    best = line("best", [2.0, 4.0], low=np.array([1.0, 3.0]), high=np.array([3.0, 5.0]))
    figure = drawn([best, line("b", [1.0, 1.0])], seeds=3)
    band = named(figure)["interval of the best"]
    assert band.x.tolist() == [1000, 2000, 2000, 1000]
    assert band.y.tolist() == [1, 3, 5, 3]
    assert "95 % interval of 3 seeds (too narrow)" in figure.layout.meta["caption"]


def test_the_median_ends_where_the_first_whole_trial_ends() -> None:
    """By the clock the fast trials end first: the median of the slow ones is another curve."""
    fast = [line(name, [4.0, 8.0], step=1.0) for name in "ab"]
    slow = [line(name, [1.0, 1.0, 1.0, 1.0, 1.0], step=1.0) for name in "cde"]
    stopped = line("f", [9.0], step=1.0, full=False)
    median = named(drawn([*fast, *slow, stopped], x="time_total_s"))["median"]
    assert median.x.tolist() == [1, 2]
    assert median.y.tolist() == [2.5, 1]


def test_of_many_trials_the_rest_is_a_band_and_the_figure_small() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(100, 1e6, 200)
    lines = [Line(f"t{n}", x, x / 1e4 - n / 20 + rng.normal(size=200)) for n in range(1000)]
    figure = drawn(lines)
    traces = named(figure)
    band = traces["5% to 95% of the others"]
    low, high = band.y[: len(band.y) // 2], band.y[len(band.y) // 2 :][::-1]
    others = np.array([line.y for line in lines[20:]])
    # The last value of the band is the quantile of the other trials' last values.
    np.testing.assert_allclose(
        [low[-1], high[-1]], np.quantile(others[:, -1], [0.05, 0.95]), rtol=1e-4
    )
    assert sum(name.startswith("t") for name in traces) == 20
    assert "other 980" in figure.layout.meta["caption"]
    assert len(figure.to_json()) < 100_000


def test_a_spike_of_the_best_one_survives_thinning() -> None:
    values = [0.0] * 5000
    values[2345] = 77.0
    figure = drawn([line("best", values), line("b", [1.0])])
    best = named(figure)["best"]
    assert len(best.y) <= 200
    assert best.y.max() == 77
    assert figure.layout.yaxis.range[1] > 77


@pytest.mark.parametrize(
    ("greatest", "divisor", "title"),
    [(200.0, 1, "training time (s)"), (600.0, 60, "training time (min)"),
     (36_000.0, 3600, "training time (h)")],
)  # fmt: skip
def test_wall_clock_has_a_unit_that_fits(greatest: float, divisor: float, title: str) -> None:
    figure = drawn([line("best", [1.0, 2.0], step=greatest / 2)], x="time_total_s")
    assert figure.layout.xaxis.title.text == title
    assert figure.data[-1].x[-1] == pytest.approx(greatest / divisor)
    assert figure.layout.xaxis.range[0] == 0


def test_nothing_to_draw_is_said() -> None:
    assert draw_curves([line("a", [])], METRIC) == f"No trial reported a finite value of {METRIC}."


def test_labels_are_moved_apart_as_little_as_needed() -> None:
    assert spread([10.0, 50.0], 17) == [10.0, 50.0]
    assert spread([12.0, 10.0], 17) == [19.5, 2.5]
    assert spread([0.0, 1.0, 2.0], 10) == [-9.0, 1.0, 11.0]
    assert spread([0.0, 100.0, 1.0], 10) == [-4.5, 100.0, 5.5]
    assert spread([], 10) == []


def test_a_clones_clock_does_not_go_back(tmp_path: Path) -> None:
    rows = [row(n, float(n), time_total_s=t) for n, t in ((1, 5.0), (2, 9.0), (3, 4.0), (4, 11.0))]
    (trial,) = load_sweep(make_sweep(tmp_path, {"t": {"rows": rows}})).trials
    line = line_of(trial, METRIC, "time_total_s", ["lr"])
    assert line.x.tolist() == [5, 9, 9, 11]
    assert line.y.tolist() == [1, 2, 3, 4]
    assert line.settings == {"lr": 0.1}


def test_the_interval_is_that_of_the_rows_which_have_one(tmp_path: Path) -> None:
    names = [f"seeds/{METRIC}/{end}" for end in ("low", "high")]
    rows = [row(1, 5.0, **dict(zip(names, (4.0, 6.0), strict=True))), row(2, 7.0)]
    (trial,) = load_sweep(make_sweep(tmp_path, {"t": {"rows": rows}})).trials
    line = line_of(trial, METRIC, "num_env_steps_sampled_lifetime")
    assert line.low is not None
    assert line.high is not None
    assert line.low.tolist() == [4, 7]
    assert line.high.tolist() == [6, 7]
