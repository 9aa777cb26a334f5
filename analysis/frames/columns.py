"""In which order a table's metrics come: what a reader looks for, before what explains it."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.names import ENV_STEPS, RETURN, SECONDS
from analysis.results.records import TrialRecord
from analysis.results.spec_file import read_spec_file


def in_reading_order(names: Iterable[str], trials: Iterable[TrialRecord]) -> list[str]:
    """Metrics: the objectives of the trials' sweeps, budgets, single numbers, then families.

    Families are what has a `/` in its name, as losses (`learner/…`) and times have. Within each
    kind the order stays.
    """
    objectives = _objectives(trials)
    first = [*objectives, ENV_STEPS, SECONDS]

    def kind(name: str) -> tuple[int, int]:
        if name in first:
            return 0, first.index(name)
        return (2 if "/" in name else 1), 0

    return sorted(names, key=kind)


def _objectives(trials: Iterable[TrialRecord]) -> list[str]:
    """Return what the trials' sweeps optimise; the return where a folder has no spec."""
    found: list[str] = []
    for folder in dict.fromkeys(trial.path.parent for trial in trials):
        spec = read_spec_file(folder)
        several = spec.get("objectives") or [spec.get("objective") or {}]
        found += [str(one.get("metric", RETURN)) for one in several if isinstance(one, dict)]
    return list(dict.fromkeys(found)) or [RETURN]
