"""The report's estimates against the truth: what is drawn, and when nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import make_sweep, row

from analysis.figures.agreement import estimates_and_truth
from analysis.overview.overview import ReportData
from analysis.plots.static import write_static
from analysis.ranking import agreement


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose number nothing here depends on."""
    monkeypatch.setattr(agreement, "RESAMPLES", 200)


def trial(worth: float | None, estimates: dict[str, float]) -> dict[str, Any]:
    evaluation: dict[str, Any] = {
        "ope": {name: {"v_target": value} for name, value in estimates.items()}
    }
    if worth is not None:
        evaluation["episode_return_mean"] = worth
    return {"rows": [row(1, worth or 0.0, done=True, evaluation=evaluation)]}


TRIALS = {
    "a": trial(10, {"dr": 3.0, "wis": 1.0}),
    "b": trial(40, {"dr": 2.0, "wis": 9.0}),
    "c": trial(25, {"dr": 5.0, "wis": 4.0}),
}


def test_a_figure_for_each_estimator(tmp_path: Path) -> None:
    figures = estimates_and_truth(ReportData(make_sweep(tmp_path, TRIALS)))
    assert isinstance(figures, list)
    assert [figure.layout.meta["title"] for figure in figures] == ["By dr", "By wis"]
    by_name = {trace.name: list(trace.y) for trace in figures[0].data}
    assert by_name == {"others": [10], "truly best": [40], "chosen by the estimate": [25]}
    assert "is 15 below the best one: 50% of the range" in figures[0].layout.meta["caption"]
    # The best trial is chosen: its star stands over its diamond.
    assert [list(trace.y) for trace in figures[1].data[1:]] == [[40], [40]]


def test_nothing_where_nobody_played_or_nobody_estimated(tmp_path: Path) -> None:
    unplayed = {name: trial(None, {"dr": 1.0}) for name in "abc"}
    assert estimates_and_truth(ReportData(make_sweep(tmp_path, unplayed, "unplayed"))) is None
    unjudged = {name: trial(1.0, {}) for name in "abc"}
    assert estimates_and_truth(ReportData(make_sweep(tmp_path, unjudged, "unjudged"))) is None
    few = {name: TRIALS[name] for name in "ab"}
    said = estimates_and_truth(ReportData(make_sweep(tmp_path, few, "few")))
    assert isinstance(said, str) and said.startswith("2 trials ended with values")


def test_files_for_a_paper(tmp_path: Path) -> None:
    files = write_static(ReportData(make_sweep(tmp_path, TRIALS)), tmp_path / "figures")
    names = {file.name for file in files}
    assert {"agreement_dr.png", "agreement_dr.pdf", "agreement_wis.png"} <= names
