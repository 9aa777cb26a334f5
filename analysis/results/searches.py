"""The searches that there are, and what each learns from: the one list of them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from analysis.results.spec_file import read_spec_file


class SearchFamily(NamedTuple):
    """What a search is.

    Attributes:
        words: What sentences call it.
        learns: Whether it proposes settings after the results of earlier trials.
        needs_ends: Whether it learns only from trials that ran to their end.
    """

    words: str
    learns: bool = False
    needs_ends: bool = False


SEARCH_FAMILIES = {
    "grid": SearchFamily("grid search"),
    "random": SearchFamily("random search"),
    "tpe": SearchFamily("TPE", learns=True),
    "cmaes": SearchFamily("CMA-ES", learns=True, needs_ends=True),
    "gp": SearchFamily("a Gaussian process", learns=True, needs_ends=True),
    "sobol": SearchFamily("a Sobol sequence"),
    "nsga2": SearchFamily("NSGA-II", learns=True, needs_ends=True),
    "nsga3": SearchFamily("NSGA-III", learns=True, needs_ends=True),
}

SEARCH_SYNONYMS = {"optuna": "tpe", "qmc": "sobol"}
"""Other names that a spec may give."""

LEARNING = tuple(name for name, family in SEARCH_FAMILIES.items() if family.learns)
FINISHED_ONLY = tuple(name for name, family in SEARCH_FAMILIES.items() if family.needs_ends)


def learning_search(folder: Path) -> str:
    """Name the search of a sweep's folder if it learns from trials; else say nothing."""
    search = read_spec_file(folder).get("search")
    algorithm = str(search.get("algorithm") if isinstance(search, dict) else search)
    family = SEARCH_FAMILIES.get(SEARCH_SYNONYMS.get(algorithm, algorithm))
    return family.words if family is not None and family.learns else ""
