"""What is in recorded experience, in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.commands.recording.data_summary import ActionCounts, DataSummary
from experiments.spec.paths import shown_path
from experiments.terminal import make_table, say

if TYPE_CHECKING:
    from rich.console import Console

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_SHOWN = 20  # broken rows that are listed
_BINS, _WIDTH = 10, 40  # of the histogram of returns
_MOST_ELEMENTS = 12
_MOST_CHOICES = 8
_MOST_AGENTS = 8
_BLOCKS = "▁▂▃▄▅▆▇█"


def show_summary(summary: DataSummary, console: Console) -> None:
    """Print what is in the data, and what is broken."""
    for name, value in facts(summary):
        say(console, f"{name:<11} {value}")
    if summary.num_episodes:
        console.print()
        _show_quantiles(summary, console)
        _show_histogram(summary.returns, console)
    if summary.actions and summary.num_steps:
        console.print()
        _show_actions(summary, console)
    if summary.broken:
        console.print()
        show_broken(summary, console)


def facts(summary: DataSummary) -> list[tuple[str, str]]:
    """Return what there is to say in a line each, by name."""
    from pathlib import Path

    files = summary.files
    size = "" if summary.nbytes is None else f", {summary.nbytes / 1e6:,.2f} MB"
    count = "1 file" if len(files) == 1 else f"{len(files):,} files"
    found = [("data", f"{summary.name} ({summary.format}, {count}{size})")]
    if len(files) == 1 and "://" not in files[0]:
        found.append(("file", shown_path(Path(files[0]))))
    if summary.digest is not None:
        found.append(("digest", summary.digest[:16]))
    if summary.spaces is not None:
        inferred = "" if summary.stated else " (inferred: the files state none)"
        found.append(("observation", f"{_one_line(summary.spaces.observation)}{inferred}"))
        found.append(("action", f"{_one_line(summary.spaces.action)}{inferred}"))
    if not summary.num_steps:
        return found
    pieces = f" and {summary.num_cut:,} pieces of episodes" if summary.num_cut else ""
    found.append(
        ("recorded", f"{summary.num_episodes:,} episodes{pieces}, {summary.num_steps:,} steps")
    )
    if len(summary.agents) > 1:
        pairs = sorted(summary.agents.items())[:_MOST_AGENTS]
        rest = len(summary.agents) - len(pairs)
        told = ", ".join(f"{agent} {steps:,}" for agent, steps in pairs)
        found.append(("steps of", told + (f" and {rest} more agents" if rest else "")))
    if summary.num_episodes:
        terminated = summary.num_terminated / summary.num_episodes
        found.append(
            (
                "ends",
                f"{terminated:.1%} terminated, {1 - terminated:.1%} truncated"
                + (f"; {summary.num_cut:,} pieces are cut off" if summary.num_cut else ""),
            )
        )
    found.append(("logp", f"known for {summary.num_logp / summary.num_steps:.1%} of the steps"))
    return found


def show_broken(summary: DataSummary, console: Console) -> None:
    """List the rows that cannot be read."""
    count = len(summary.broken)
    more = " or more: reading has stopped there" if summary.stopped else ""
    say(console, f"Broken: {count:,}{more}", style="bold red")
    for message in summary.broken[:MOST_SHOWN]:
        say(console, f"  {message}")
    if count > MOST_SHOWN:
        say(console, f"  … and {count - MOST_SHOWN:,} more")


def coverage(counts: ActionCounts) -> str:
    """Return in words how the values of an element of the actions are spread."""
    total = max(1, int(counts.counts.sum()))
    if counts.is_choice:
        shares = counts.counts / total
        shown = [
            f"{int(counts.low) + i}: {share:.1%}" for i, share in enumerate(shares[:_MOST_CHOICES])
        ]
        rest = len(shares) - _MOST_CHOICES
        text = ", ".join(shown) + (f", … {rest} more" if rest > 0 else "")
        if counts.unseen:
            text += f"; never taken: {len(counts.unseen)} of {len(shares)}"
        return text
    at = "" if counts.at_bounds is None else f"; {counts.at_bounds / total:.1%} at a bound"
    return f"{sparkline(counts.counts)} {counts.low:.3g} to {counts.high:.3g}{at}"


def sparkline(counts: np.ndarray) -> str:
    """Return counts `[B]` as a line of blocks; a bin with something in it is no blank."""
    most = max(1, int(counts.max()))
    return "".join(
        " " if not count else _BLOCKS[round((len(_BLOCKS) - 1) * int(count) / most)]
        for count in counts
    )


def _show_quantiles(summary: DataSummary, console: Console) -> None:
    from analysis.statistics import iqm

    table = make_table("Episodes")
    for name in ("", "mean", "IQM", "min", "25 %", "median", "75 %", "max"):
        table.add_column(name, justify="right" if name else "left")
    for name, values in (("return", summary.returns), ("length", summary.lengths)):
        numbers = [values.mean(), iqm(values), *np.quantile(values, QUANTILES)]
        table.add_row(name, *(f"{number:,.2f}" for number in numbers))
    console.print(table)


def _show_histogram(returns: np.ndarray, console: Console) -> None:
    if returns.min() == returns.max():
        say(console, f"Every episode has the return {returns[0]:,.2f}.")
        return
    counts, edges = np.histogram(returns, _BINS)
    labels = [f"{low:,.1f}" for low in edges[:-1]]
    width = max(map(len, labels))
    say(console, "Returns: episodes by their return, from the number at the left on")
    for label, count in zip(labels, counts.tolist(), strict=True):
        bar = "█" * round(_WIDTH * count / counts.max()) or ("▏" if count else "")
        say(console, f"  {label:>{width}} {bar} {count}")


def _show_actions(summary: DataSummary, console: Console) -> None:
    say(console, "Actions")
    shown = summary.actions[:_MOST_ELEMENTS]
    width = max(len(counts.name) for counts in shown)
    for counts in shown:
        say(console, f"  {counts.name:<{width}} {coverage(counts)}")
    rest = len(summary.actions) - len(shown) + summary.left_out
    if rest:
        say(console, f"  … and {rest} more elements")


def _one_line(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 140 else f"{text[:139]}…"
