"""Which search chose a sweep's settings, as the spec in its folder names it."""

from __future__ import annotations

from pathlib import Path

from analysis.results.spec_file import read_spec_file

LEARNING = {
    "tpe": "TPE",
    "optuna": "TPE",
    "cmaes": "CMA-ES",
    "gp": "a Gaussian process",
    "nsga2": "NSGA-II",
    "nsga3": "NSGA-III",
}
"""Searches that propose settings after the results of earlier trials."""


def learning_search(folder: Path) -> str:
    """The name of the sweep's search if it learns from trials; else, or without a spec, empty."""
    search = read_spec_file(folder).get("search")
    algorithm = search.get("algorithm") if isinstance(search, dict) else search
    return LEARNING.get(str(algorithm), "")
