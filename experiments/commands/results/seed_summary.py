"""What the terminal shows of a sweep's seeds and of its final."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.numbers import cell
from analysis.ranking.held_out import Candidate, winner_caution
from analysis.statistics import interval_caution
from experiments.spec.schema import SweepSpec

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.running.final import Final


def show_seeds(spec: SweepSpec, console: Console) -> None:
    """How the trials' values are to be read."""
    if spec.seeds is None:
        return
    count = len(spec.seeds.values)
    text = f"Each trial is {count} seeds: its value is their interquartile mean (IQM)."
    console.print(f"{text} {interval_caution(count)}".rstrip(), highlight=False, soft_wrap=True)


def show_final(final: Final, spec: SweepSpec, console: Console) -> None:
    """The configurations of the final: the search's estimate, the held-out one, and the winner."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=f"{spec.objective.metric}: the best configurations on {len(final.seeds)} held-out "
        "seeds",
        caption="search: the value at the end of the search's trial, and the best one that it ever "
        "reported; optimism: by how much the former is better than the held-out IQM.",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("trial", no_wrap=True)
    for name in ("search", "its best", "held-out IQM", "95 % interval", "optimism", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for candidate in final.candidates:
        low, high = candidate.interval
        won = candidate is final.winner
        table.add_row(
            candidate.trial_id,
            cell(candidate.search_last),
            cell(candidate.search_best),
            cell(candidate.held_out),
            f"{cell(low)} … {cell(high)}",
            cell(candidate.optimism(spec.objective.mode), signed=True),
            _remark(candidate, final),
            style="bold" if won else None,
        )
    console.print(table)
    judged = [len(c.values) for c in final.candidates if len(c.values) > 1]
    lines = [interval_caution(min(judged, default=len(final.seeds)))]
    if final.winner is not None:
        lines.append(
            f"The winner is chosen by its held-out IQM; best/ holds the policy of its median "
            f"held-out seed, {final.winner.median_seed}."
        )
        lines.append(winner_caution(final.candidates))
    if final.failures:
        trial, cause = final.failures[0]
        lines.append(f"{len(final.failures)} held-out runs failed, e.g. {trial}: {cause}")
    for line in filter(None, lines):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _remark(candidate: Candidate, final: Final) -> str:
    """Tell whether it won, and how many of its runs ended well if not all did."""
    remarks = ["winner"] if candidate is final.winner else []
    if len(candidate.values) < len(final.seeds):
        remarks.append(f"{len(candidate.values)} of {len(final.seeds)} runs")
    return ", ".join(remarks)
