"""Pictures of importance and partial dependence: what is drawn, for every kind of setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from settings_sweeps import log_uniform, sweep_of, uniform

from analysis import (
    Surrogate,
    fit_surrogate,
    importance_plot,
    partial_dependence_plot,
    plot_importance,
    plot_partial_dependence,
)
from analysis.rows import ResultsError

DRAWS = {
    "sigma": lambda rng: rng.uniform() if rng.uniform() < 0.6 else None,
    "layers": lambda rng: ([64, 64], [256])[rng.integers(2)],
    "lr": log_uniform,
    "a": uniform,
}


@pytest.fixture(scope="module")
def learned() -> Surrogate:
    sweep = sweep_of(lambda c: c.get("sigma", 2) + (c["layers"] == [256]), DRAWS)
    return fit_surrogate(sweep, forests=1)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures instead of files."""
    drawn: list[Any] = []

    def keep(figure: Any, out: Any) -> Path:
        figure.draw_without_rendering()
        drawn.append(figure)
        return Path(out)

    for module in (importance_plot, partial_dependence_plot):
        monkeypatch.setattr(module, "save", keep)
    return drawn


def labels(axis: Any) -> list[str]:
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_importance_has_a_bar_per_setting_the_first_on_top(
    learned: Surrogate, figures: list[Any]
) -> None:
    plot_importance(learned)
    axes = figures[0].axes[0]
    assert labels(axes.yaxis)[:2] == ["sigma", "layers"] and axes.yaxis_inverted()
    assert len(axes.patches) == 4
    assert "60 trials, R² 0." in axes.get_title(loc="left")


def test_the_caution_is_written_and_noise_is_grey(figures: list[Any]) -> None:
    plot_importance(sweep_of(lambda _: 0.0, {"a": uniform, "b": uniform}))
    assert "explain nothing" in figures[0].get_supxlabel().replace("\n", " ")
    assert len(set(figures[0].axes[0].patches[0].get_facecolor()[:3])) == 1


@pytest.mark.parametrize(
    ("settings", "across", "up"),
    [
        ("lr", "0.0001", ""),
        ("sigma", "absent", ""),
        ("sigma", "0.5", ""),
        ("layers", "[64, 64]", ""),
        (["layers", "sigma"], "[64, 64]", "absent"),
        (["a", "lr"], "0.4", "0.0001"),
    ],
)
def test_axes_are_as_searched(
    learned: Surrogate, figures: list[Any], settings: Any, across: str, up: str
) -> None:
    plot_partial_dependence(learned, settings)
    axes = figures[0].axes[0]
    assert across in labels(axes.xaxis)
    assert not up or up in labels(axes.yaxis)


def test_files_are_written_and_endings_checked(learned: Surrogate, tmp_path: Path) -> None:
    path = plot_importance(learned, out=tmp_path / "new" / "importance.png", method="permutation")
    assert path.stat().st_size > 5_000
    with pytest.raises(ResultsError, match="cannot write the plot"):
        plot_partial_dependence(learned, "a", out=tmp_path / "a.doc")
