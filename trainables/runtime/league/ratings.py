"""Elo ratings of all players, fitted to the table of their games."""

from __future__ import annotations

import numpy as np

ANCHOR = 1_000.0
"""The rating of the first player, by which all others are told."""
_SCALE = 400.0 / np.log(10)  # Elo's: 400 points more are ten times the odds
_PRIOR_GAMES = 1.0
_STEPS = 200
_TOLERANCE = 1e-9


def fitted_ratings(scores: np.ndarray, games: np.ndarray) -> np.ndarray:
    """Return Elo ratings by which the games are most likely (Bradley and Terry, 1952), `[P]`.

    Player i beats j with the probability 1 / (1 + 10^((r_j - r_i) / 400)). They are fitted to all
    games at once, whatever their order, and so need no K; a drawn game between each two players
    keeps them finite and those who have not met near each other. One number for a player says
    nothing of circles, such as that of rock, paper and scissors: see the pay-offs for these.

    Args:
        scores: Games that the row's player has won of the column's, a draw being half a one,
            `[P, P]`.
        games: Numbers of their games, `[P, P]`, symmetric.

    Returns:
        The first player's rating is 1000.
    """
    num_players = len(games)
    if num_players < 2:
        return np.full(num_players, ANCHOR)
    others = 1 - np.eye(num_players)
    won = (scores + _PRIOR_GAMES / 2 * others).sum(1)
    played = games + _PRIOR_GAMES * others
    strength = np.zeros(num_players)  # natural logarithms of odds
    for _ in range(_STEPS):  # Newton's method: the log-likelihood is concave
        expected = played / (1 + np.exp(strength[None, :] - strength[:, None]))
        slope = won - expected.sum(1)
        curvature = expected * expected.T / played.clip(1e-300)
        hessian = np.diag(curvature.sum(1)) - curvature
        change = np.zeros(num_players)
        change[1:] = np.linalg.solve(hessian[1:, 1:], slope[1:])  # the first one stays at 0
        strength += np.clip(change, -1, 1)
        if np.abs(change).max() < _TOLERANCE:
            break
    return ANCHOR + _SCALE * strength
