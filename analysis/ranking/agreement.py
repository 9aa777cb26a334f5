"""Whether a metric that is cheap, or all there is, ranks trials as another one does.

Where no simulator exists, a sweep chooses by an estimate of what a policy is worth. Where one
exists, how well that would have gone is told by the measures of Fu et al. (2021, "Benchmarks for
deep off-policy evaluation", section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.frames.frames import named_trials
from analysis.names import ESTIMATED, EVALUATION, RETURN, VALUE_OF_TARGET, sign_of
from analysis.results.rows import ResultsError
from analysis.results.sources import are_several, load_sweeps
from analysis.statistics.intervals import RESAMPLES

if TYPE_CHECKING:
    from analysis.results.records import Source, Sweep

TRUTH = f"{EVALUATION}{RETURN}"
"""What a policy is worth where it is played."""
FEWEST = 3
"""Trials: two always agree or disagree."""


def agreement_frame(
    results: Source | Sequence[Source],
    estimate: str,
    truth: str = TRUTH,
    mode: str = "max",
) -> pd.DataFrame:
    """Return the trials in the order of an estimate, beside what they are really worth.

    A trial counts with its last finite value of each, if it ended without an error.

    Args:
        results: A `ResultGrid`, the path of a sweep folder, or several: then their trials are
            ranked together.
        estimate: The flat name of the metric that trials are chosen by, as
            `evaluation/ope/dr/v_target`.
        truth: That of what they are worth.
        mode: `"max"` or `"min"`: what is better, of both.

    Returns:
        A frame with (of several sweeps) `sweep`, `trial_id`, both metrics and `regret`: by how much
        the best of the trials down to this row is truly worse than the best of all ("regret@k" in
        row k). `attrs` holds `estimate`, `truth`, `mode`, `rank_correlation` (Spearman's, of
        -1 to 1; NaN if either metric is the same for all), `low` and `high` (its 95 % percentile
        interval from a bootstrap over trials) and `relative_regret`: the first row's regret as a
        share of the range of true values, 0 to 1.

    Raises:
        ResultsError: A source holds no sweep, no trial reported a metric, the mode is unknown, or
            fewer than three trials ended with both.
    """
    sign = sign_of(mode)
    sweeps = load_sweeps(results)
    given = sweeps if are_several(results) else sweeps[0]
    for metric in (estimate, truth):
        if not any(metric in trial.frame for sweep in sweeps for trial in sweep.trials):
            sweeps[0].require_metric(metric)
    rows = []
    for head, trial in named_trials(given):
        values = {metric: trial.last(metric) for metric in (estimate, truth)}
        if trial.status == "TERMINATED" and None not in values.values():
            rows.append({**head, **values})
    if len(rows) < FEWEST:
        raise ResultsError(
            f"{len(rows)} trials ended with values of {estimate!r} and {truth!r}; how well one "
            f"ranks them by the other takes {FEWEST} or more"
        )
    frame = pd.DataFrame(rows).sort_values(estimate, ascending=mode == "min", kind="stable")
    frame = frame.reset_index(drop=True)
    estimates, worth = sign * frame[estimate].to_numpy(), sign * frame[truth].to_numpy()
    frame["regret"] = worth.max() - np.maximum.accumulate(worth)
    low, high = _interval(estimates, worth)
    spread = float(np.ptp(worth))
    frame.attrs.update(
        estimate=estimate,
        truth=truth,
        mode=mode,
        rank_correlation=rank_correlation(estimates, worth),
        low=low,
        high=high,
        relative_regret=float(frame["regret"].iloc[0]) / spread if spread else 0.0,
    )
    return frame


def judged_estimates(sweep: Sweep) -> dict[str, str]:
    """Return the metrics of off-policy estimators by the estimators' names, if trials were played.

    Without the return of an evaluation in the environment there is nothing to judge them by.
    """
    columns = {str(name) for trial in sweep.trials for name in trial.frame.columns}
    if TRUTH not in columns:
        return {}
    return {
        name.removeprefix(ESTIMATED).removesuffix(VALUE_OF_TARGET): name
        for name in sorted(columns)
        if name.startswith(ESTIMATED) and name.endswith(VALUE_OF_TARGET)
    }


def rank_correlation(estimates: np.ndarray, worth: np.ndarray) -> float:
    """Return Spearman's rank correlation of two columns `[N]`; NaN if one has a single value."""
    if not np.ptp(estimates) or not np.ptp(worth):
        return float("nan")
    from scipy import stats  # slow to import

    return float(stats.spearmanr(estimates, worth).statistic)


def _interval(estimates: np.ndarray, worth: np.ndarray) -> tuple[float, float]:
    """Return the 95 % percentile interval of the rank correlation, from pairs drawn anew.

    Resamples of which a column has a single value say nothing, and are left out.
    """
    generator = np.random.default_rng(0)  # the same trials have the same interval
    drawn = generator.integers(len(worth), size=(RESAMPLES, len(worth)))
    found = np.array([rank_correlation(estimates[rows], worth[rows]) for rows in drawn])
    found = found[np.isfinite(found)]
    if not len(found):
        return float("nan"), float("nan")
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
