"""What came out of a sweep: frames, leaderboard, effects, best checkpoint, export and plots.

Every function takes a ``ResultGrid`` or the path of a sweep folder (``runs/<name>``). A folder is
read from its JSON files alone: no Ray, no pickle, finished or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.best import BestCheckpoint, best_checkpoint, best_trial
    from analysis.budget import (
        area_under_curve,
        area_under_curve_frame,
        budget_to_threshold,
        budget_to_threshold_frame,
    )
    from analysis.censored import Reached, reached_summary
    from analysis.effects import effects_frame
    from analysis.effects_plot import plot_effects
    from analysis.export import export_best
    from analysis.frames import curves_frame, trials_frame
    from analysis.lineage import Exploit, read_lineage, schedule_frame
    from analysis.lineage_plot import plot_lineage
    from analysis.pareto import pareto_front, plot_pareto
    from analysis.plots import plot_learning_curves
    from analysis.ranking import leaderboard
    from analysis.records import ResultsError, Sweep, TrialRecord, load_sweep
    from analysis.sources import load_sweeps

__all__ = [
    "BestCheckpoint",
    "Exploit",
    "Reached",
    "ResultsError",
    "Sweep",
    "TrialRecord",
    "area_under_curve",
    "area_under_curve_frame",
    "best_checkpoint",
    "best_trial",
    "budget_to_threshold",
    "budget_to_threshold_frame",
    "curves_frame",
    "effects_frame",
    "export_best",
    "leaderboard",
    "load_sweep",
    "load_sweeps",
    "pareto_front",
    "plot_effects",
    "plot_learning_curves",
    "plot_lineage",
    "plot_pareto",
    "reached_summary",
    "read_lineage",
    "schedule_frame",
    "trials_frame",
]

_HOME = {
    "BestCheckpoint": "best",
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
    "curves_frame": "frames",
    "effects_frame": "effects",
    "export_best": "export",
    "leaderboard": "ranking",
    "load_sweep": "records",
    "load_sweeps": "sources",
    "pareto_front": "pareto",
    "plot_effects": "effects_plot",
    "plot_learning_curves": "plots",
    "plot_lineage": "lineage_plot",
    "reached_summary": "censored",
    "read_lineage": "lineage",
    "schedule_frame": "lineage",
    "plot_pareto": "pareto",
    "trials_frame": "frames",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the command line does not pay for pandas before it has something to analyse.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
