"""Draws the pictures of a sweep's best policy, each where there is something to draw."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from analysis.overview.best_pictures import LEAGUE, OPEN_LOOP, VISITS, BestPicture
from experiments.running.pictures.league import draw_league_of_best
from experiments.running.pictures.open_loop import draw_open_loop_of_best
from experiments.running.pictures.source import Best
from experiments.running.pictures.visits import draw_visits_of_best

logger = logging.getLogger(__name__)

Draw = Callable[[Best, Path], Path | None]
"""Draws a picture into a file; None where there is nothing of its kind to draw."""

_DRAW: dict[BestPicture, Draw] = {
    OPEN_LOOP: draw_open_loop_of_best,
    VISITS: draw_visits_of_best,
    LEAGUE: draw_league_of_best,
}


def draw_best(best: Best, folder: Path) -> dict[BestPicture, Path]:
    """Draw all pictures of a policy that there are.

    A picture is not worth a sweep: whatever goes wrong with one is a warning.

    Args:
        best: The policy.
        folder: Where they are written.

    Returns:
        The files.
    """
    found = {}
    for picture, draw in _DRAW.items():
        try:
            path = draw(best, folder / picture.file)
        except Exception as error:  # whatever an environment raises
            logger.warning("No %s: %s: %s", picture.file, type(error).__name__, error)
            continue
        if path is not None:
            found[picture] = path
    return found
