"""The search's estimates beside the held-out ones, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.names import metric_label
from analysis.plots.curves import new_figure, save
from analysis.ranking.held_out import Candidate
from analysis.results.rows import ResultsError
from analysis.statistics import interval_label


def plot_held_out(
    found: Sequence[Candidate], metric: str, out: str | Path, *, chosen: Candidate | None = None
) -> Path:
    """Draw for each configuration the held-out runs, their IQM with interval, and the estimate.

    Args:
        found: The configurations, in the search's order; each with its runs.
        metric: The objective.
        out: The file to write.
        chosen: The winner, which stands out.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: No configuration has two held-out runs, or the file cannot be written.
    """
    judged = [candidate for candidate in found if len(candidate.values) > 1]
    if not judged:
        raise ResultsError("no configuration has two finished held-out runs to draw")
    figure = new_figure(8.0, 1.6 + 0.55 * len(judged))
    axes = figure.subplots()
    for row, candidate in enumerate(judged):
        colour = "#0b6bcb" if candidate is chosen else "0.35"
        low, high = candidate.interval
        values = list(candidate.values.values())
        first = row == 0
        axes.plot(
            values, [row] * len(values), "|", color="0.6", ms=11, zorder=1,
            label="held-out runs" if first else None,
        )  # fmt: skip
        axes.plot([low, high], [row, row], color=colour, lw=3.0, solid_capstyle="butt", zorder=2)
        axes.plot(
            candidate.held_out, row, "o", color=colour, ms=8, zorder=3,
            label=f"held-out IQM, {interval_label(len(values))}" if first else None,
        )  # fmt: skip
        axes.plot(
            candidate.search_last, row, "D", mfc="none", mec="#c8501e", ms=8, mew=1.8, zorder=4,
            label="the search's estimate" if first else None,
        )  # fmt: skip
    names = [_name(candidate, rank, chosen) for rank, candidate in enumerate(judged, start=1)]
    axes.set_yticks(range(len(judged)), names)
    axes.set_ylim(len(judged) - 0.5, -0.5)
    axes.set_xlabel(metric_label(metric))
    seeds = max(len(candidate.values) for candidate in judged)
    title = f"The best configurations on {seeds} held-out seeds"
    axes.set_title(title, fontsize="medium", loc="left")
    axes.grid(True, axis="x", color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    # Below the axes, and laid out with them, so that no text is cut off.
    figure.legend(frameon=False, fontsize="small", ncols=3, loc="outside lower center")
    return save(figure, out)


def _name(candidate: Candidate, rank: int, chosen: Candidate | None) -> str:
    mark = " (winner)" if candidate is chosen else ""
    return f"{rank}: {candidate.trial_id}{mark}"
