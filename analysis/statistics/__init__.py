"""Statistics of a few runs, in one place: estimates, intervals, profiles, comparison.

The definitions are those of Agarwal et al. (2021), "Deep reinforcement learning at the edge of the
statistical precipice", and the numbers those of the authors' library rliable.
"""

from analysis.statistics.aggregates import aggregate, aggregate_curves
from analysis.statistics.estimates import iqm, median_index, normalise
from analysis.statistics.improvement import Improvement, probability_of_improvement
from analysis.statistics.intervals import (
    COVERAGE,
    ENOUGH_SEEDS,
    bootstrap_interval,
    interval_caution,
    interval_label,
    iqm_interval,
    trimmed_t_interval,
)
from analysis.statistics.profiles import average_score_distribution, performance_profile

__all__ = [
    "COVERAGE",
    "ENOUGH_SEEDS",
    "Improvement",
    "aggregate",
    "aggregate_curves",
    "average_score_distribution",
    "bootstrap_interval",
    "interval_caution",
    "interval_label",
    "iqm",
    "iqm_interval",
    "median_index",
    "normalise",
    "performance_profile",
    "probability_of_improvement",
    "trimmed_t_interval",
]
