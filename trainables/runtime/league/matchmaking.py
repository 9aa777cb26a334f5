"""Whom a learner plays: probabilities of opponents, by its role in the league."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trainables.core.config.policies import LEAGUE_EXPLOITER, MAIN, LeagueConfig
from trainables.runtime.league.payoff import PayOffs

_HOPELESS = 0.2  # a win rate below which a main exploiter first plays older copies (AlphaStar's)


def priorities(win_rates: np.ndarray, power: float) -> np.ndarray:
    """Return probabilities by which harder opponents come first, `[P]`.

    Prioritised fictitious self-play (Vinyals et al., 2019), f(p) = (1 - p)^power; uniform where all
    are beaten every time.

    Args:
        win_rates: How often each is beaten, in [0, 1], `[P]`.
        power: 0: uniform; more: harder ones more often.
    """
    return _normalized((1 - win_rates) ** power)


def even_priorities(win_rates: np.ndarray) -> np.ndarray:
    """Return probabilities by which equals come first, f(p) = p (1 - p), `[P]`."""
    return _normalized(win_rates * (1 - win_rates))


def _normalized(weights: np.ndarray) -> np.ndarray:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))


def opponents_of(
    learner: str, config: LeagueConfig, payoffs: PayOffs, copies: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Return probabilities of a learner's opponents, by their ids; their sum is 1.

    Args:
        learner: Its id.
        config: Roles, and how opponents are chosen.
        payoffs: How games have ended so far.
        copies: Frozen copies of each learner, the oldest first; each has one at least.
    """
    role = config.learners[learner]
    if role == MAIN:
        share = config.self_play_share
        found = {learner: share} if share else {}
        rest = _of_copies(learner, config, payoffs, copies)
        return found | {player: (1 - share) * p for player, p in rest.items() if share < 1}
    if role == LEAGUE_EXPLOITER:
        return _of_copies(learner, config, payoffs, copies)
    return _of_main_exploiter(learner, config, payoffs, copies)


def _rates(learner: str, others: Sequence[str], payoffs: PayOffs) -> np.ndarray:
    """Return how often a learner has beaten others, `[P]`."""
    columns = [payoffs.players.index(other) for other in others]
    return payoffs.win_rates()[payoffs.players.index(learner), columns]


def _of_copies(
    learner: str, config: LeagueConfig, payoffs: PayOffs, copies: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Return opponents among frozen copies of all learners, as the setting has it."""
    if config.opponents == "latest":
        return {its[-1]: 1 / len(copies) for its in copies.values()}
    everyone = [copy for its in copies.values() for copy in its]
    power = config.priority_power if config.opponents == "prioritized" else 0.0
    chances = priorities(_rates(learner, everyone, payoffs), power)
    return dict(zip(everyone, chances.tolist(), strict=True))


def _of_main_exploiter(
    learner: str, config: LeagueConfig, payoffs: PayOffs, copies: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Return the main learners; of one that is too strong yet, its copies, equals first."""
    mains = [other for other, role in config.learners.items() if role == MAIN]
    found: dict[str, float] = {}
    for main, rate in zip(mains, _rates(learner, mains, payoffs).tolist(), strict=True):
        if rate >= _HOPELESS:
            found[main] = 1 / len(mains)
            continue
        its = copies[main]
        chances = even_priorities(_rates(learner, its, payoffs)) / len(mains)
        found |= dict(zip(its, chances.tolist(), strict=True))
    return found
