"""Whether a study's storage is Optuna's, seen before anything is written to it."""

from __future__ import annotations

from pathlib import Path

from analysis.results.store_files import (
    OPTUNA_TABLES,
    sqlite_file,
    why_not_database,
    why_not_journal,
)
from experiments.errors import PreflightError
from experiments.spec.paths import absolute_location


def check_study_file(storage: str) -> None:
    """See that a study storage on this machine is Optuna's, or is not there. Writes nothing.

    Raises:
        PreflightError: Its file holds something else.
    """
    location = absolute_location(storage)
    path = sqlite_file(location)
    if path is not None:
        problem = why_not_database(path, OPTUNA_TABLES, "Optuna")
    else:
        problem = why_not_journal(Path(location)) if "://" not in location else None
    if problem is not None:
        raise PreflightError(f"search.study_storage: {problem}; it is left as it is")
