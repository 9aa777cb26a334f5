"""Statistics of a few runs, in one place: estimates, intervals, profiles, comparison.

The definitions are those of Agarwal et al. (2021), "Deep reinforcement learning at the edge of the
statistical precipice", and the numbers those of the authors' library rliable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.lazy_names import offer_names

if TYPE_CHECKING:
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

offer_names(globals())
