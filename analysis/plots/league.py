"""Who beats whom in a league, and how its learners' ratings have grown, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis import palette
from analysis.plots.curves import dress, new_figure, save, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainables.runtime.league.standings import Standings

_LEARNERS = (
    palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.RED, palette.GREY
)  # fmt: skip
_STYLES = ("-", "--", ":")
_MOST_NUMBERS = 12  # players up to which cells have their numbers
_MOST_NAMES = 60  # rows that have room for a name of their own
_WIDTH = 7.5  # inches
_MOST_INCHES, _CELL_INCHES = 5.6, 0.52  # of the matrix, and of a cell at most
_ELO_INCHES = 2.6
_LARGEST, _SMALLEST = 8.0, 5.0  # points of names
_DARK = 0.5  # luminance below which numbers are white


def plot_league(standings: Standings, out: str | Path) -> Path:
    """Draw a league's pay-offs and ratings; see `draw_league`.

    Args:
        standings: The league's.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: It cannot be written.
    """
    return save(draw_league(standings), out)


def draw_league(standings: Standings) -> Figure:
    """Return a figure of two panels: the pay-off matrix, and Elo ratings over training.

    Cells are win rates if the game is of constant sum, else the row's mean returns; those of pairs
    that have not met are hatched.

    Args:
        standings: The league's.
    """
    matrix = min(_MOST_INCHES, len(standings.players) * _CELL_INCHES)
    figure = new_figure(_WIDTH, matrix + _ELO_INCHES + 1.6)
    above, below = figure.subplots(2, 1, height_ratios=(matrix + 1.0, _ELO_INCHES))
    _draw_payoffs(above, standings, matrix / len(standings.players))
    _draw_ratings(below, standings)
    return figure


def _draw_payoffs(axes: Axes, standings: Standings, cell_inches: float) -> None:
    """Draw the matrix.

    Args:
        axes: Where.
        standings: The league's.
        cell_inches: The side of a cell.
    """
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    if standings.is_constant_sum:
        values, label, form = standings.win_rates, "share of games won", ".2f"
        scale, colours = Normalize(0, 1), colormaps["RdBu"]
    else:
        values, label, form = standings.mean_returns, "mean return of the row's player", ".3g"
        known = values[~np.isnan(values)]
        scale, colours = Normalize(known.min(), known.max()), colormaps["YlGnBu"]
    axes.set_anchor("W")
    axes.patch.set(facecolor="0.88", hatch="////", edgecolor="0.7", linewidth=0)
    image = axes.imshow(values, cmap=colours, norm=scale, interpolation="nearest")
    if len(values) <= _MOST_NUMBERS:
        _write_numbers(axes, standings.games, values, form, lambda v: colours(scale(v)))
    for first in _firsts(standings)[1:]:
        for line in (axes.axhline, axes.axvline):
            line(first - 0.5, color="w", lw=2)
    _write_names(axes, standings, cell_inches)
    inch = 1 / (cell_inches * len(values))  # as a part of the matrix, whose bar stays at its side
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1 + 0.12 * inch, 0, 0.14 * inch, 1)))
    bar.set_label(label, fontsize="small")
    bar.ax.tick_params(labelsize="small")
    axes.set_title("row against column", fontsize="medium", loc="left")


def _write_numbers(
    axes: Axes, games: np.ndarray, values: np.ndarray, form: str, colour_of: Any
) -> None:
    """Write into each known cell its value, and below it the number of games that count."""
    for row, column in zip(*np.nonzero(~np.isnan(values)), strict=True):
        red, green, blue, _ = colour_of(values[row, column])
        ink = "w" if 0.3 * red + 0.59 * green + 0.11 * blue < _DARK else "0.1"
        shown: dict[str, Any] = {"ha": "center", "color": ink}
        axes.text(column, row, format(values[row, column], form), va="bottom", fontsize=8, **shown)
        count = f"{games[row, column]:.0f}"
        axes.text(column, row + 0.08, count, va="top", fontsize=5.5, **shown)


def _write_names(axes: Axes, standings: Standings, cell_inches: float) -> None:
    """Name rows and columns: all of them, or of many each learner and every so many copies."""
    firsts = _firsts(standings)
    every = -(-len(standings.players) // _MOST_NAMES)
    named = [
        row
        for row, (player, learner) in enumerate(
            zip(standings.players, standings.learners, strict=True)
        )
        if player == learner or (row - max(f for f in firsts if f <= row)) % every == 0
    ]
    names = [shortened(standings.players[row]) for row in named]
    size = float(np.clip(cell_inches * every * 72 * 0.7, _SMALLEST, _LARGEST))
    axes.set_xticks(named, names, rotation=90, fontsize=size)
    axes.set_yticks(named, names, fontsize=size)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _firsts(standings: Standings) -> list[int]:
    """Return the rows at which another learner's players begin."""
    learners = standings.learners
    return [row for row in range(len(learners)) if row == 0 or learners[row] != learners[row - 1]]


def _draw_ratings(axes: Axes, standings: Standings) -> None:
    """Draw a line for each learner, from its first copy to itself."""
    from matplotlib.ticker import EngFormatter

    firsts = _firsts(standings)
    for number, (first, end) in enumerate(zip(firsts, [*firsts[1:], None], strict=True)):
        steps, ratings = standings.num_env_steps[first:end], standings.ratings[first:end]
        colour = _LEARNERS[number % len(_LEARNERS)]
        style = _STYLES[number // len(_LEARNERS) % len(_STYLES)]
        name = shortened(standings.learners[first])
        axes.plot(steps, ratings, style, color=colour, lw=1.4, marker="o", ms=3, label=name)
        axes.plot(steps[-1], ratings[-1], "o", color=colour, ms=8, mfc="none", mew=1.6)
    dress(axes)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("environment steps", fontsize="small")
    axes.set_ylabel("Elo", fontsize="small")
    axes.tick_params(labelsize="small")
    axes.set_title("ratings of copies, and of learners now", fontsize="medium", loc="left")
    axes.legend(frameon=False, loc="best", fontsize="small")
