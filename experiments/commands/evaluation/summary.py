"""What the episodes of an evaluation say of a policy: statistics with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.numbers import finite_or_none

if TYPE_CHECKING:
    from trainables.runtime.evaluation.watch import EpisodeRecord

CONFIDENCE = 0.95
ENOUGH_EPISODES = 20
"""Below so many episodes every summary says that its intervals are rough."""

COVERAGE = {5: 0.88, 10: 0.90, 20: 0.92, 100: 0.94}
"""How often a 95 % t interval of skewed returns holds the mean, by number of episodes.

Simulated for exponential returns, and checked by
`tests/unit/sweeps/commands/test_evaluate_command.py`. For normal returns it is 0.95 at any number;
for a success in one of 20 episodes 0.64 at 20, 0.87 at 100.
"""


@dataclass(frozen=True)
class Summary:
    """Statistics of the returns and lengths of independent episodes of one policy.

    Attributes:
        episodes: How many.
        mean: The mean of the returns.
        mean_interval: Student's t interval of the mean, 95 %: exact for normal returns, and by the
            central limit theorem close for many episodes of any.
        iqm: The interquartile mean of the returns.
        iqm_interval: Its percentile bootstrap interval, 95 %.
        std: Standard deviation of the returns, with n - 1; 0 of one.
        min: Lowest return.
        max: Highest return.
        length_mean: Mean number of steps.
        steps: The steps of all episodes together.
        terminated: Episodes that the environment ended.
        truncated: Episodes that were cut off, by a time limit as a rule; one may be both.
    """

    episodes: int
    mean: float
    mean_interval: tuple[float, float]
    iqm: float
    iqm_interval: tuple[float, float]
    std: float
    min: float
    max: float
    length_mean: float
    steps: int
    terminated: int
    truncated: int

    @property
    def caution(self) -> str:
        """What is to be said of the intervals; "" where there are episodes enough."""
        if self.episodes >= ENOUGH_EPISODES:
            return ""
        if self.episodes == 1:
            return "One episode says little and has no interval: play more."
        known = ", ".join(f"{100 * held:.0f} % at {n}" for n, held in COVERAGE.items())
        return (
            f"The intervals of {self.episodes} episodes are rough: play {ENOUGH_EPISODES} or more "
            f"to compare policies. (For skewed returns a 95 % interval holds the mean in {known} "
            "episodes.)"
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON; null for what is not finite, or an interval that there is not."""
        return {
            "episodes": self.episodes,
            "return_mean": finite_or_none(self.mean),
            "return_mean_low": finite_or_none(self.mean_interval[0]),
            "return_mean_high": finite_or_none(self.mean_interval[1]),
            "return_iqm": finite_or_none(self.iqm),
            "return_iqm_low": finite_or_none(self.iqm_interval[0]),
            "return_iqm_high": finite_or_none(self.iqm_interval[1]),
            "return_std": finite_or_none(self.std),
            "return_min": finite_or_none(self.min),
            "return_max": finite_or_none(self.max),
            "length_mean": self.length_mean,
            "num_env_steps": self.steps,
            "num_terminated": self.terminated,
            "num_truncated": self.truncated,
            "confidence": CONFIDENCE,
        }


def summary_of(episodes: Sequence[EpisodeRecord]) -> Summary:
    """Return the statistics of episodes, of which there is at least one."""
    import numpy as np

    from analysis.statistics import iqm, iqm_interval

    outcomes = [episode.outcome for episode in episodes]
    returns = np.array([outcome.total for outcome in outcomes])
    steps = sum(outcome.length for outcome in outcomes)
    return Summary(
        len(outcomes),
        float(returns.mean()),
        mean_interval(returns),
        iqm(returns),
        # scipy warns of a distribution without spread, whose interval is no news.
        iqm_interval(returns) if np.ptp(returns) else _no_spread(returns),
        float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        float(returns.min()),
        float(returns.max()),
        steps / len(outcomes),
        steps,
        sum(outcome.terminated for outcome in outcomes),
        sum(outcome.truncated for outcome in outcomes),
    )


def mean_interval(values: Any, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Student's t interval of the mean of independent values; NaN for fewer than two.

    See `COVERAGE`.
    """
    import numpy as np
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return math.nan, math.nan
    quantile = t.ppf((1 + confidence) / 2, len(values) - 1)
    half = quantile * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half


def rate_interval(
    successes: int, trials: int, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return Wilson's score interval of a rate of independent trials, of which there is one.

    It holds near its confidence also where all or none succeed, and for few trials (Brown, Cai and
    DasGupta, 2001).
    """
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def _no_spread(values: Any) -> tuple[float, float]:
    end = float(values[0]) if len(values) > 1 else math.nan
    return end, end
