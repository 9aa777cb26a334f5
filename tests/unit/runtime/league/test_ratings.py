"""Elo ratings, against a slow maximum of the likelihood and ratings that are known."""

from __future__ import annotations

import numpy as np
import pytest

from trainables.runtime.league.ratings import fitted_ratings


def expected(ratings: np.ndarray) -> np.ndarray:
    return 1 / (1 + 10 ** ((ratings[None, :] - ratings[:, None]) / 400))


def test_ratings_that_made_the_games_are_found_again() -> None:
    true = np.array([1_000.0, 1_200.0, 900.0, 1_350.0])
    games = np.full((4, 4), 1e6)
    np.fill_diagonal(games, 0)
    assert fitted_ratings(games * expected(true), games) == pytest.approx(true, abs=0.1)


def test_against_slow_ascent_of_the_likelihood() -> None:
    rng = np.random.default_rng(3)
    games = np.triu(rng.integers(0, 12, (5, 5)), 1).astype(float)
    wins = rng.binomial(games.astype(int), 0.6).astype(float)
    scores, games = wins + (games - wins).T, games + games.T
    ratings = np.full(5, 1_000.0)
    drawn = 1 - np.eye(5)
    for _ in range(20_000):  # a draw is added to each pair
        slope = (scores + drawn / 2 - (games + drawn) * expected(ratings)).sum(1)
        ratings += 10 * slope
        ratings += 1_000 - ratings[0]
    assert fitted_ratings(scores, games) == pytest.approx(ratings, abs=1e-3)


def test_one_win_is_finite_and_no_game_is_no_difference() -> None:
    rated = fitted_ratings(np.array([[0.0, 0], [1, 0]]), np.array([[0.0, 1], [1, 0]]))
    # One win and the drawn game that is added: 1.5 of 2, odds of 3.
    assert rated == pytest.approx([1_000, 1_000 + 400 * np.log10(3)])
    assert fitted_ratings(np.zeros((3, 3)), np.zeros((3, 3))) == pytest.approx([1_000] * 3)
    assert fitted_ratings(np.zeros((1, 1)), np.zeros((1, 1))) == [1_000]
    many = np.array([[0.0, 1e5], [0, 0]])
    assert np.isfinite(fitted_ratings(many, many + many.T)).all()
