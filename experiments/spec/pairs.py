"""Which search goes with which scheduler, and why others do not: the one table.

A test runs every allowed pair, and the check of a spec refuses the others with the reason that is
written here. `python -m experiments.spec.pairs --write` writes it into the guide of schedulers.
"""

from __future__ import annotations

from pathlib import Path

from analysis.results.schedulers import POPULATION, STOPPING
from analysis.results.searches import FINISHED_ONLY, LEARNING
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.search_schema import SEARCHES
from trainables.core.generated_part import GeneratedPart, row, run_command

BOHB = (
    "bohb is not offered: the package that it needs, hpbandster, has had no release since 2018; "
    "use search: tpe with scheduler: hyperband, which also draws from a density of the best "
    "configurations and stops by brackets, or search: tpe with scheduler: asha"
)


def why_not(search: str, scheduler: str) -> str | None:
    """Return why a search and a scheduler do not go together, and what does; None if they do."""
    if scheduler in POPULATION:
        if search in LEARNING:
            return (
                f"{search} learns from the result of a configuration, and {scheduler} changes the "
                f"configuration of a trial in mid-run; use search: random (or sobol) with "
                f"{scheduler}, or {search} with scheduler: {_schedulers_for(search)}"
            )
        if search == "grid":
            return (
                f"grid tries each configuration as it is, and {scheduler} changes it in mid-run; "
                "use search: random (or sobol), or grid with scheduler: fifo"
            )
    if scheduler == "pbt_replay" and search not in ("grid", "random"):
        return (
            f"pbt_replay has a schedule that says what the settings are, and leaves {search} "
            "nothing to search; use search: random or grid"
        )
    if scheduler in STOPPING and search in FINISHED_ONLY:
        return (
            f"{search} does not go with {scheduler}; use search: tpe with {scheduler}, or {search} "
            f"with scheduler: fifo; {search} learns only from trials that ran to their end, and "
            f"would not see those that {scheduler} stops before"
        )
    return None


def _schedulers_for(search: str) -> str:
    return "fifo" if search in FINISHED_ONLY else "asha"


def markdown() -> str:
    """Return the guide's table: a row for each search, "yes" or "no" for each scheduler."""
    lines = [row("search \\ scheduler", *SCHEDULERS), row(*["---"] * (1 + len(SCHEDULERS)))]
    for search in SEARCHES:
        answers = ("no" if why_not(search, scheduler) else "yes" for scheduler in SCHEDULERS)
        lines.append(row(search, *answers))
    return "\n".join(lines)


PART = GeneratedPart(
    Path(__file__).parents[1] / "guides" / "schedulers.md",
    "pairs",
    "experiments.spec.pairs",
    markdown,
    5,
)

if __name__ == "__main__":
    run_command([PART])
