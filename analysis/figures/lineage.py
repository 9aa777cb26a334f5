"""Population-based training: who went on from whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import (
    base_figure,
    budget_axis,
    budget_words,
    joined,
    plural,
    small,
)
from analysis.importance.scales import label, number
from analysis.overview.lineage import Exploit, ancestry, line_of_descent, segments
from analysis.results.schedulers import POPULATION

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_ROW = 30
_MOST_TRIALS = 40
_MOST_SETTINGS = 6
_LOST = {"width": 2, "color": theme.ORANGE}


def lineage_tree(data: ReportData) -> go.Figure | str | None:
    """Return the population's tree; the line of descent of the winner's weights stands out."""
    if data.scheduler.get("algorithm") not in POPULATION:
        return None
    if not data.lineage:
        return "No trial was replaced by another one."
    if data.winner is None:
        return f"No trial ended with a finite value of {data.metric}."
    time_attr = data.lineage[0].time_attr
    ends = {
        trial.trial_id: budget
        for trial in data.sweep.trials
        if (budget := trial.last(time_attr)) is not None
    }
    return draw_tree(data.lineage, ends, data.winner.trial_id)


def draw_tree(exploits: Sequence[Exploit], ends: Mapping[str, float], winner: str) -> go.Figure:
    """Draw a line for each trial, and an arrow from the donor wherever it was replaced.

    Args:
        exploits: Oldest first.
        ends: The last budget of each trial by its id, in the order of the rows. Of a large
            population only the winner's ancestors and the first others are drawn.
        winner: Whose line of descent stands out.
    """
    events = list(exploits)
    own = {exploit.number for exploit in ancestry(events, winner)}
    bold = line_of_descent(events, winner, ends.get(winner, 0.0))
    rows = _rows(ends, [trial for trial, _ in bold])
    time_attr = events[0].time_attr
    factor, axis = budget_axis(time_attr, max(ends.values(), default=0.0))
    figure = base_figure(
        _ROW * len(rows) + 70,
        alt=f"{plural(len(events), 'exploit')} between {plural(len(ends), 'trial')}; the weights "
        f"of the winner, {winner}, went through {len(own)} of them.",
        caption=_tree_caption(len(rows), len(ends), winner),
    )
    lines = [
        (np.array(segment) / factor, np.array([y, y], float))
        for trial, y in rows.items()
        for segment in segments(events, trial, ends[trial])
    ]
    _add_lines(figure, lines, theme.rgba(theme.GREY, 0.8), 2.0, "trials")
    _add_arrows(figure, [e for e in events if e.number not in own], rows, factor, theme.GREY, 1.0)
    descent = [
        (np.array(segment) / factor, np.array([rows[trial]] * 2, float)) for trial, segment in bold
    ]
    _add_lines(figure, descent, theme.BLUE, 4.0, "descent of the winner")
    _add_arrows(figure, [e for e in events if e.number in own], rows, factor, theme.BLUE, 2.2)
    _add_losses(figure, [e for e in events if e.trial in rows], rows, factor)
    texts = [theme.short(trial, 14) for trial in rows]
    texts[list(rows).index(winner)] = f"<b>{texts[list(rows).index(winner)]}</b>"
    figure.update_layout(
        xaxis={**axis, "rangemode": "tozero"},
        yaxis={"tickvals": list(rows.values()), "ticktext": texts, "showgrid": False,
               "range": [-len(rows) + 0.4, 0.6], "zeroline": False},
    )  # fmt: skip
    return figure


def _rows(ends: Mapping[str, float], first: Sequence[str]) -> dict[str, int]:
    """Return the height of each trial that is drawn, the first one on top."""
    chosen = list(ends)
    if len(chosen) > _MOST_TRIALS:
        kept = set([*dict.fromkeys(reversed(first)), *ends][:_MOST_TRIALS])
        chosen = [trial for trial in ends if trial in kept]
    chosen += [trial for trial in dict.fromkeys(first) if trial not in chosen and trial in ends]
    return {trial: -number for number, trial in enumerate(chosen)}


def _add_lines(
    figure: go.Figure,
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    color: str,
    width: float,
    name: str,
) -> None:
    x, y = joined(lines)
    figure.add_scatter(
        x=x, y=y, mode="lines", line={"color": color, "width": width}, hoverinfo="skip", name=name
    )


def _add_arrows(
    figure: go.Figure,
    exploits: Sequence[Exploit],
    rows: Mapping[str, int],
    factor: float,
    color: str,
    width: float,
) -> None:
    """Draw arrows from the donor's row to the trial's, at the checkpoint's budget."""
    known = [e for e in exploits if e.trial in rows and e.donor in rows]
    if not known:
        return
    lines = [
        (np.array([e.donor_budget] * 2) / factor, np.array([rows[e.donor], rows[e.trial]], float))
        for e in known
    ]
    _add_lines(figure, lines, color, width, "exploits")
    figure.add_scatter(
        x=small(e.donor_budget / factor for e in known),
        y=small(rows[e.trial] + (0.28 if rows[e.donor] > rows[e.trial] else -0.16) for e in known),
        mode="markers", name="clone and donor",
        marker={
            "symbol": ["triangle-down" if rows[e.donor] > rows[e.trial] else "triangle-up"
                       for e in known],
            "size": 9, "color": color,
        },
        text=[_words(e) for e in known], hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _add_losses(
    figure: go.Figure, exploits: Sequence[Exploit], rows: Mapping[str, int], factor: float
) -> None:
    """Draw a cross where a trial's own training was given up."""
    figure.add_scatter(
        x=small(e.budget / factor for e in exploits), y=small(rows[e.trial] for e in exploits),
        mode="markers", marker={"symbol": "x-thin", "size": 8, "line": _LOST},
        name="given up", text=[_words(e) for e in exploits],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _words(exploit: Exploit) -> str:
    """Return an exploit for the hover text: who, when, by how much, and what changed."""
    lines = [
        f"<b>{theme.plain(exploit.trial)}</b> continues from <b>{theme.plain(exploit.donor)}</b>",
        f"at {number(exploit.donor_budget)} {budget_words(exploit.time_attr)}, "
        f"its training to {number(exploit.budget)} is dropped",
    ]
    if exploit.score is not None and exploit.donor_score is not None:
        lines.append(f"value {number(exploit.score)}, the donor's {number(exploit.donor_score)}")
    for name, value in list(exploit.after.items())[:_MOST_SETTINGS]:
        before = exploit.donor_settings.get(name)
        if before != value:
            lines.append(
                f"{theme.short(name)}: {theme.short(label(before), 16)} → "
                f"{theme.short(label(value), 16)}"
            )
    return "<br>".join(lines)


def _tree_caption(shown: int, trials: int, winner: str) -> str:
    parts = [
        f"Blue: the training of the final weights of the winner, {winner}. An arrow leads from a "
        "donor to its clone. An orange cross marks the end of the clone's previous training, "
        "which is dropped."
    ]
    if shown < trials:
        parts.append(f"{shown} of {trials} trials, the winner's ancestors among them.")
    return " ".join(parts)
