"""How often each cell of a small grid was visited in training, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.curves import new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL_INCHES = 0.34
_DARK = 0.55  # of the scale: letters on it are white


def plot_visits(counts: np.ndarray, out: str | Path, letters: Sequence[str] | None = None) -> Path:
    """Draw how often each cell was visited; see `draw_visits`.

    Args:
        counts: By row and column.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).
        letters: The map, a string for each row, e.g. "SFFG"; None: it has none.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: It cannot be written.
    """
    return save(draw_visits(counts, letters), out)


def draw_visits(counts: np.ndarray, letters: Sequence[str] | None = None) -> Figure:
    """Return a figure of the grid, with colours for powers of ten; cells without a visit are grey.

    Args:
        counts: By row and column.
        letters: The map; fields that all look alike, F, are left without a letter.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    rows, columns = counts.shape
    figure = new_figure(max(3.2, columns * _CELL_INCHES + 1.4), max(2.4, rows * _CELL_INCHES + 0.7))
    axes = figure.subplots()
    axes.set_facecolor("0.85")
    most = max(2, int(counts.max()))
    scale, colours = LogNorm(1, most), colormaps["YlGnBu"]
    seen = np.ma.masked_less(counts, 1)
    image = axes.imshow(seen, cmap=colours, norm=scale, interpolation="nearest")
    for row, text in enumerate(letters or ()):
        for column, letter in enumerate(text):
            if letter != "F":
                dark = counts[row, column] > 0 and float(scale(counts[row, column])) > _DARK
                axes.text(
                    column, row, letter, ha="center", va="center", color="w" if dark else "0.1"
                )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    visited = int(np.count_nonzero(counts))
    axes.set_title(f"{visited} of {counts.size} cells visited", fontsize="medium", loc="left")
    figure.colorbar(image, ax=axes, label="steps into the cell", shrink=0.9)
    return figure
