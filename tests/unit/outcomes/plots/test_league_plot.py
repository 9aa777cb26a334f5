"""The picture of a league: unknown pairs are not drawn as even, and names stay readable."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from analysis.plots.league import draw_league, plot_league
from trainables.runtime.league.standings import Standings


def standings(num_copies: int, learners: tuple[str, ...] = ("main",)) -> Standings:
    """Players that beat all older ones of each learner in 8 of 10 games; the first never played."""
    players = [
        f"{m}_v{i}" if i < num_copies else m for m in learners for i in range(num_copies + 1)
    ]
    age = np.tile(np.arange(num_copies + 1), len(learners))
    gap = np.sign(age[:, None] - age[None, :])
    unknown = np.eye(len(players), dtype=bool)
    unknown[0] = unknown[:, 0] = True
    return Standings(
        players=tuple(players),
        learners=tuple(m for m in learners for _ in range(num_copies + 1)),
        num_env_steps=1_000 * age,
        games=np.where(unknown, 0.0, 10.0),
        win_rates=np.where(unknown, np.nan, 0.5 + 0.3 * gap),
        mean_returns=np.where(unknown, np.nan, 7.0 + gap),
        ratings=np.where(np.arange(len(players)) == 0, np.nan, 1_000.0 + 100 * age),
        is_constant_sum=True,
    )


def test_cells_are_win_rates_and_unknown_ones_are_left_out() -> None:
    given = standings(2)
    above, below = draw_league(given).axes
    (image,) = above.images
    shown = image.get_array()
    assert shown is not None
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), np.isnan(given.win_rates))
    assert image.get_clim() == (0, 1)
    assert [text.get_text() for text in above.texts] == ["0.20", "10", "0.80", "10"]
    assert above.patch.get_hatch()
    names = [label.get_text() for label in above.get_yticklabels()]
    assert names == ["main_v0", "main_v1", "main"]
    line, ring = below.lines
    assert line.get_xdata().tolist() == [0, 1_000, 2_000]  # type: ignore[union-attr]
    np.testing.assert_array_equal(line.get_ydata(), given.ratings)
    assert np.ravel(ring.get_xdata()) == [2_000] and np.ravel(ring.get_ydata()) == [1_200]


def test_of_other_games_mean_returns_are_shown() -> None:
    given = replace(standings(2), is_constant_sum=False)
    above = draw_league(given).axes[0]
    (image,) = above.images
    assert image.get_clim() == (6, 8)
    (bar,) = above.child_axes
    assert bar.get_ylabel() == "mean return of the row's player"


@pytest.mark.parametrize(("num_copies", "names"), [(19, 40), (149, 62)])
def test_many_players(num_copies: int, names: int) -> None:
    above, below = draw_league(standings(num_copies, ("main", "hunter"))).axes
    assert len(above.get_yticks()) == names and not above.texts
    labels = [label.get_text() for label in above.get_yticklabels()]
    assert {"main_v0", "main", "hunter_v0", "hunter"} <= {*labels}
    assert len(below.get_legend().get_texts()) == 2  # type: ignore[union-attr]


def test_names_do_not_overlap(tmp_path: Path) -> None:
    figure = draw_league(standings(29, ("main", "hunter")))
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    below = sorted(boxes, key=lambda box: box.y0)
    assert len(boxes) == 60
    # A box has room for accents and descenders, which these names do without.
    assert all(b.y0 - a.y0 > 0.6 * a.height for a, b in pairwise(below))
    assert plot_league(standings(1), tmp_path / "league.png").stat().st_size > 4_000
