"""What came out of a sweep: frames, leaderboard, effects, best checkpoint, export and plots.

Every function takes a `ResultGrid` or the path of a sweep folder (`runs/<name>`). A folder is
read from its JSON files alone: no Ray, no pickle, finished or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.lazy_names import offer_names

if TYPE_CHECKING:
    from analysis.comparison.comparison import compare
    from analysis.comparison.outcome import Comparison
    from analysis.curves.budget import (
        area_under_curve,
        area_under_curve_frame,
        budget_to_threshold,
        budget_to_threshold_frame,
    )
    from analysis.export import export_best
    from analysis.frames.cost import cost_frame
    from analysis.frames.frames import curves_frame, trials_frame
    from analysis.frames.seeds import seeds_frame
    from analysis.frames.write import write_frame
    from analysis.importance.effects import effects_frame
    from analysis.importance.importance import importance_frame
    from analysis.importance.interactions import interactions_frame
    from analysis.importance.partial_dependence import partial_dependence_frame
    from analysis.importance.surrogate import Surrogate, fit_surrogate
    from analysis.overview.lineage import Exploit, lineage_frame, read_lineage, schedule_frame
    from analysis.plots.agreement import plot_agreement
    from analysis.plots.comparison import plot_comparison
    from analysis.plots.curves import plot_learning_curves
    from analysis.plots.effects import plot_effects
    from analysis.plots.fronts import plot_cost_front, plot_pareto
    from analysis.plots.lineage import plot_lineage
    from analysis.ranking.agreement import agreement_frame
    from analysis.ranking.best import BestCheckpoint, best_checkpoint, best_trial
    from analysis.ranking.cost_return import cost_front
    from analysis.ranking.fronts import pareto_front
    from analysis.ranking.leaderboard import leaderboard
    from analysis.report import write_figures, write_report
    from analysis.report.notebook import SweepResult
    from analysis.results.load import load_sweep
    from analysis.results.mlflow import load_mlflow_sweep
    from analysis.results.records import ResultsError, Sweep, TrialRecord
    from analysis.results.sources import load_sweeps
    from analysis.statistics.aggregates import aggregate, aggregate_curves
    from analysis.statistics.censored import Reached, reached_summary
    from analysis.statistics.estimates import normalise
    from analysis.statistics.improvement import Improvement, probability_of_improvement
    from analysis.statistics.profiles import average_score_distribution, performance_profile

offer_names(globals())
