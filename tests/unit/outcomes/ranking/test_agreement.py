"""How well an estimate ranks trials: correlation, regret and the picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from analysis_sweeps import make_sweep, row
from scipy.stats import spearmanr

from analysis import ResultsError, agreement_frame, plot_agreement
from analysis.ranking import agreement

RETURN, ESTIMATE = "episode_return_mean", "evaluation/ope/dr/v_target"


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose number nothing here depends on."""
    monkeypatch.setattr(agreement, "RESAMPLES", 200)


def trial(worth: float | None, estimate: float | None, **more: Any) -> dict[str, Any]:
    ope = {} if estimate is None else {"evaluation": {"ope": {"dr": {"v_target": estimate}}}}
    return {"rows": [row(1, worth, done=True, **ope)], **more}


TRIALS = {
    "a": trial(10, 3.0),
    "b": trial(40, 2.0),
    "c": trial(25, 5.0),
    "d": trial(-5, 1.0),
    "failed": trial(99, 9.0, status="ERROR"),
    "not judged": trial(50, None),
}


def test_order_regret_and_correlation(tmp_path: Path) -> None:
    frame = agreement_frame(make_sweep(tmp_path, TRIALS), ESTIMATE, RETURN)
    assert list(frame["trial_id"]) == ["c", "a", "b", "d"]
    assert list(frame["regret"]) == [15, 15, 0, 0]
    assert frame.attrs["rank_correlation"] == spearmanr([3, 2, 5, 1], [10, 40, 25, -5]).statistic
    assert -1 <= frame.attrs["low"] <= frame.attrs["rank_correlation"] <= frame.attrs["high"] <= 1
    assert frame.attrs["relative_regret"] == 15 / 45


def test_less_is_better(tmp_path: Path) -> None:
    frame = agreement_frame(make_sweep(tmp_path, TRIALS), ESTIMATE, RETURN, "min")
    assert list(frame["trial_id"]) == ["d", "b", "a", "c"]
    assert list(frame["regret"]) == [0, 0, 0, 0]


def test_perfect_and_worthless_estimates(tmp_path: Path) -> None:
    many = {str(i): trial(i, i**3) for i in range(6)}
    attrs = agreement_frame(make_sweep(tmp_path, many, "good"), ESTIMATE, RETURN).attrs
    assert [attrs[k] for k in ("rank_correlation", "low", "high")] == pytest.approx([1, 1, 1])
    same = {str(i): trial(i, 7.0) for i in range(6)}
    attrs = agreement_frame(make_sweep(tmp_path, same, "same"), ESTIMATE, RETURN).attrs
    assert math.isnan(attrs["rank_correlation"]) and math.isnan(attrs["low"])


def test_several_sweeps_are_ranked_together(tmp_path: Path) -> None:
    one = make_sweep(tmp_path, {"a": trial(1, 1.0), "b": trial(2, 4.0)}, "one")
    two = make_sweep(tmp_path, {"a": trial(9, 2.0)}, "two")
    frame = agreement_frame([one, two], ESTIMATE, RETURN)
    assert list(frame["sweep"]) == ["one", "two", "one"] and list(frame["regret"]) == [7, 0, 0]


def test_picture_and_errors(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, TRIALS)
    out = plot_agreement(sweep, ESTIMATE, RETURN, tmp_path / "agreement.png")
    assert out.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ResultsError, match="did you mean 'evaluation/ope/dr/v_target'"):
        agreement_frame(sweep, "evaluation/ope/dr/v_targt", RETURN)
    with pytest.raises(ResultsError, match="max"):
        agreement_frame(sweep, ESTIMATE, RETURN, "most")
    few = make_sweep(tmp_path, {"a": TRIALS["a"], "b": TRIALS["b"]}, "few")
    with pytest.raises(ResultsError, match="2 trials ended with values"):
        agreement_frame(few, ESTIMATE, RETURN)
