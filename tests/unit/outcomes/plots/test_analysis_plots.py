"""The learning-curve plot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from analysis_sweeps import make_sweep, row
from matplotlib.figure import Figure

from analysis import ResultsError, plot_learning_curves
from analysis.plots import curves as plots


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    trials = {}
    for number in range(5):
        length = 4 + 4 * number
        values = [10.0 * i / (1 + number) for i in range(1, length)]
        trials[f"t{number}"] = {"rows": [row(i, v) for i, v in enumerate(values, start=1)]}
    trials["nan"] = {"rows": [row(1, float("nan"))]}
    trials["one"] = {"rows": [row(1, 3.0)]}
    return make_sweep(tmp_path, trials)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_file_comes_out(sweep: Path, tmp_path: Path, ending: str) -> None:
    out = plot_learning_curves(
        sweep, "episode_return_mean", tmp_path / "plots" / f"curves.{ending}"
    )
    assert out == tmp_path / "plots" / f"curves.{ending}"
    content = out.read_bytes()
    assert content.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    assert len(content) > 5_000


def test_the_best_trial_is_the_leaderboards_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the last value, not by the highest point of the picture."""
    trials = {"peak": [5.0, 90.0, 10.0], "end": [5.0, 40.0, 50.0]}
    rows = {k: {"rows": [row(i, v) for i, v in enumerate(vs, 1)]} for k, vs in trials.items()}
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "save", lambda figure, out: drawn.append(figure))
    plot_learning_curves(make_sweep(tmp_path, rows))
    labels = [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()]
    assert "best: end" in labels


def test_errors(sweep: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot write the plot"):
        plot_learning_curves(sweep, out=tmp_path / "curves.nonsense")
    with pytest.raises(ResultsError, match="no trial reported the metric 'reward'"):
        plot_learning_curves(sweep, "reward", tmp_path / "x.png")


def test_what_is_slow_to_import_is_imported_where_it_is_used() -> None:
    code = (
        "import analysis, sys; analysis.plot_learning_curves; analysis.leaderboard;"
        "analysis.export_best; import analysis.report.blocks;"
        "assert not {'matplotlib', 'scipy.stats'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
