"""What came out of a sweep: frames, leaderboard, effects, best checkpoint, export and plots.

Every function takes a ``ResultGrid`` or the path of a sweep folder (``runs/<name>``). A folder is
read from its JSON files alone: no Ray, no pickle, finished or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.aggregates import aggregate, aggregate_curves
    from analysis.best import BestCheckpoint, best_checkpoint, best_trial
    from analysis.budget import (
        area_under_curve,
        area_under_curve_frame,
        budget_to_threshold,
        budget_to_threshold_frame,
    )
    from analysis.censored import Reached, reached_summary
    from analysis.comparison import Comparison, compare
    from analysis.comparison_plot import plot_comparison
    from analysis.cost import cost_frame
    from analysis.cost_return import cost_front, plot_cost_front
    from analysis.effects import effects_frame
    from analysis.effects_plot import plot_effects
    from analysis.estimates import normalise
    from analysis.export import export_best
    from analysis.frames import curves_frame, trials_frame
    from analysis.importance import importance_frame
    from analysis.improvement import Improvement, probability_of_improvement
    from analysis.interactions import interactions_frame
    from analysis.lineage import Exploit, lineage_frame, read_lineage, schedule_frame
    from analysis.lineage_plot import plot_lineage
    from analysis.mlflow_source import load_mlflow_sweep
    from analysis.pareto import pareto_front, plot_pareto
    from analysis.partial_dependence import partial_dependence_frame
    from analysis.plots import plot_learning_curves
    from analysis.profiles import average_score_distribution, performance_profile
    from analysis.ranking import leaderboard
    from analysis.records import ResultsError, Sweep, TrialRecord, load_sweep
    from analysis.report import write_figures, write_report
    from analysis.seeds import seeds_frame
    from analysis.sources import load_sweeps
    from analysis.surrogate import Surrogate, fit_surrogate
    from analysis.tables import write_frame

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
    "importance_frame": "importance",
    "interactions_frame": "interactions",
    "partial_dependence_frame": "partial_dependence",
    "Surrogate": "surrogate",
    "fit_surrogate": "surrogate",
    "BestCheckpoint": "best",
    "Comparison": "comparison",
    "Exploit": "lineage",
    "Reached": "censored",
    "ResultsError": "records",
    "Sweep": "records",
    "TrialRecord": "records",
    "area_under_curve": "budget",
    "area_under_curve_frame": "budget",
    "best_checkpoint": "best",
    "best_trial": "best",
    "budget_to_threshold": "budget",
    "budget_to_threshold_frame": "budget",
    "compare": "comparison",
    "cost_frame": "cost",
    "cost_front": "cost_return",
    "curves_frame": "frames",
    "effects_frame": "effects",
    "export_best": "export",
    "leaderboard": "ranking",
    "lineage_frame": "lineage",
    "load_mlflow_sweep": "mlflow_source",
    "load_sweep": "records",
    "load_sweeps": "sources",
    "pareto_front": "pareto",
    "plot_comparison": "comparison_plot",
    "plot_cost_front": "cost_return",
    "plot_effects": "effects_plot",
    "plot_learning_curves": "plots",
    "plot_lineage": "lineage_plot",
    "reached_summary": "censored",
    "read_lineage": "lineage",
    "schedule_frame": "lineage",
    "plot_pareto": "pareto",
    "seeds_frame": "seeds",
    "trials_frame": "frames",
    "aggregate": "aggregates",
    "aggregate_curves": "aggregates",
    "average_score_distribution": "profiles",
    "performance_profile": "profiles",
    "Improvement": "improvement",
    "probability_of_improvement": "improvement",
    "normalise": "estimates",
    "write_figures": "report",
    "write_frame": "tables",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the command line does not pay for pandas before it has something to analyse.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
