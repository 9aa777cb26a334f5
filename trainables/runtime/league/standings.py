"""`Standings`: the pay-offs and ratings of a league in the order in which they are shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainables.runtime.league.league import League

_ROUNDING = 1e-3  # of the largest mean return: sums of rewards that differ by less are the same


@dataclass(frozen=True)
class Standings:
    """How a league's players have fared: of each learner its copies by age, and then itself.

    Attributes:
        players: Their ids, `[P]`.
        learners: Whose frozen copy each is; of a learner its own id, `[P]`.
        num_env_steps: Environment steps of the run when each was frozen; of learners until now,
            `[P]`.
        games: Numbers of games of the row's player with the column's, older ones counting less,
            `[P, P]`; 0: they have not met.
        win_rates: Share of these that the row's player has won, a draw being half a win; NaN of
            those who have not met.
        mean_returns: The row's mean return in these; NaN of those who have not met.
        ratings: Elo ratings, `[P]`; NaN of who has not played.
        is_constant_sum: Whether the returns of both players add up to the same in all games, as far
            as pairs' means tell: then who wins more is who has more.
    """

    players: tuple[str, ...]
    learners: tuple[str, ...]
    num_env_steps: np.ndarray
    games: np.ndarray
    win_rates: np.ndarray
    mean_returns: np.ndarray
    ratings: np.ndarray
    is_constant_sum: bool


def standings_of(league: League, num_env_steps: int) -> Standings:
    """Return the standings of a league.

    Args:
        league: The league.
        num_env_steps: Environment steps of the run until now.
    """
    frozen_at = {copy.policy_id: copy.num_env_steps for copy in league.copies}
    learner_of = {
        player: learner
        for learner in league.config.learners
        for player in (*league.copies_of(learner), learner)
    }
    payoffs, players = league.payoffs, [*learner_of]
    order = np.ix_(*[[payoffs.players.index(player) for player in players]] * 2)
    games, mean_returns = payoffs.games[order], payoffs.mean_returns()[order]
    with np.errstate(invalid="ignore"):
        win_rates = np.where(games > 0, payoffs.scores[order] / games, np.nan)
    rated = league.ratings()
    has_played = games.sum(1) > 0
    return Standings(
        players=tuple(players),
        learners=tuple(learner_of.values()),
        num_env_steps=np.array([frozen_at.get(p, num_env_steps) for p in players]),
        games=games,
        win_rates=win_rates,
        mean_returns=mean_returns,
        ratings=np.where(has_played, [rated[player] for player in players], np.nan),
        is_constant_sum=_is_constant_sum(mean_returns),
    )


def _is_constant_sum(mean_returns: np.ndarray) -> bool:
    """Tell whether all pairs' mean returns add up to the same; of a single pair, to 0."""
    sums = np.triu(mean_returns + mean_returns.T)[np.triu(~np.isnan(mean_returns))]
    if not len(sums):
        return False
    apart = abs(sums[0]) if len(sums) == 1 else np.ptp(sums)
    return bool(apart <= _ROUNDING * np.nanmax(np.abs(mean_returns)))
