"""What came out of a sweep: frames, leaderboard, effects, best checkpoint, export and plots.

Every function takes a ``ResultGrid`` or the path of a sweep folder (``runs/<name>``). A folder is
read from its JSON files alone: no Ray, no pickle, finished or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.comparison.comparison import Comparison, compare
    from analysis.curves.budget import (
        area_under_curve,
        area_under_curve_frame,
        budget_to_threshold,
        budget_to_threshold_frame,
    )
    from analysis.export import export_best
    from analysis.frames.cost import cost_frame
    from analysis.frames.frames import curves_frame, trials_frame
    from analysis.frames.lineage import Exploit, lineage_frame, read_lineage, schedule_frame
    from analysis.frames.seeds import seeds_frame
    from analysis.frames.write import write_frame
    from analysis.importance.effects import effects_frame
    from analysis.importance.importance import importance_frame
    from analysis.importance.interactions import interactions_frame
    from analysis.importance.partial_dependence import partial_dependence_frame
    from analysis.importance.surrogate import Surrogate, fit_surrogate
    from analysis.plots.comparison import plot_comparison
    from analysis.plots.curves import plot_learning_curves
    from analysis.plots.effects import plot_effects
    from analysis.plots.lineage import plot_lineage
    from analysis.ranking.best import BestCheckpoint, best_checkpoint, best_trial
    from analysis.ranking.cost_return import cost_front, plot_cost_front
    from analysis.ranking.fronts import pareto_front, plot_pareto
    from analysis.ranking.leaderboard import leaderboard
    from analysis.report import write_figures, write_report
    from analysis.results.mlflow import load_mlflow_sweep
    from analysis.results.records import ResultsError, Sweep, TrialRecord, load_sweep
    from analysis.results.sources import load_sweeps
    from analysis.statistics.aggregates import aggregate, aggregate_curves
    from analysis.statistics.censored import Reached, reached_summary
    from analysis.statistics.estimates import normalise
    from analysis.statistics.improvement import Improvement, probability_of_improvement
    from analysis.statistics.profiles import average_score_distribution, performance_profile

__all__ = [
    "BestCheckpoint",
    "Comparison",
    "Exploit",
    "Improvement",
    "Reached",
    "ResultsError",
    "Surrogate",
    "Sweep",
    "TrialRecord",
    "aggregate",
    "aggregate_curves",
    "area_under_curve",
    "area_under_curve_frame",
    "average_score_distribution",
    "best_checkpoint",
    "best_trial",
    "budget_to_threshold",
    "budget_to_threshold_frame",
    "compare",
    "cost_frame",
    "cost_front",
    "curves_frame",
    "effects_frame",
    "export_best",
    "fit_surrogate",
    "importance_frame",
    "interactions_frame",
    "leaderboard",
    "lineage_frame",
    "load_mlflow_sweep",
    "load_sweep",
    "load_sweeps",
    "normalise",
    "pareto_front",
    "partial_dependence_frame",
    "performance_profile",
    "plot_comparison",
    "plot_cost_front",
    "plot_effects",
    "plot_learning_curves",
    "plot_lineage",
    "plot_pareto",
    "probability_of_improvement",
    "reached_summary",
    "read_lineage",
    "schedule_frame",
    "seeds_frame",
    "trials_frame",
    "write_figures",
    "write_frame",
    "write_report",
]

_HOME = {
    "importance_frame": "importance.importance",
    "interactions_frame": "importance.interactions",
    "partial_dependence_frame": "importance.partial_dependence",
    "Surrogate": "importance.surrogate",
    "fit_surrogate": "importance.surrogate",
    "BestCheckpoint": "ranking.best",
    "Comparison": "comparison.comparison",
    "Exploit": "frames.lineage",
    "Reached": "statistics.censored",
    "ResultsError": "results.records",
    "Sweep": "results.records",
    "TrialRecord": "results.records",
    "area_under_curve": "curves.budget",
    "area_under_curve_frame": "curves.budget",
    "best_checkpoint": "ranking.best",
    "best_trial": "ranking.best",
    "budget_to_threshold": "curves.budget",
    "budget_to_threshold_frame": "curves.budget",
    "compare": "comparison.comparison",
    "cost_frame": "frames.cost",
    "cost_front": "ranking.cost_return",
    "curves_frame": "frames.frames",
    "effects_frame": "importance.effects",
    "export_best": "export",
    "leaderboard": "ranking.leaderboard",
    "lineage_frame": "frames.lineage",
    "load_mlflow_sweep": "results.mlflow",
    "load_sweep": "results.records",
    "load_sweeps": "results.sources",
    "pareto_front": "ranking.fronts",
    "plot_comparison": "plots.comparison",
    "plot_cost_front": "ranking.cost_return",
    "plot_effects": "plots.effects",
    "plot_learning_curves": "plots.curves",
    "plot_lineage": "plots.lineage",
    "reached_summary": "statistics.censored",
    "read_lineage": "frames.lineage",
    "schedule_frame": "frames.lineage",
    "plot_pareto": "ranking.fronts",
    "seeds_frame": "frames.seeds",
    "trials_frame": "frames.frames",
    "aggregate": "statistics.aggregates",
    "aggregate_curves": "statistics.aggregates",
    "average_score_distribution": "statistics.profiles",
    "performance_profile": "statistics.profiles",
    "Improvement": "statistics.improvement",
    "probability_of_improvement": "statistics.improvement",
    "normalise": "statistics.estimates",
    "write_figures": "report",
    "write_frame": "frames.write",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the command line does not pay for pandas before it has something to analyse.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
