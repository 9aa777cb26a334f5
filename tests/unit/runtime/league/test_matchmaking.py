"""Whom learners play, by their roles."""

from __future__ import annotations

import numpy as np
import pytest

from trainables.core.config.policies import LeagueConfig
from trainables.runtime.league.matchmaking import even_priorities, opponents_of, priorities
from trainables.runtime.league.payoff import PayOffs

ROLES = {"main": "main", "hunter": "main_exploiter", "rover": "league_exploiter"}
COPIES = {"main": ["main_v0", "main_v1"], "hunter": ["hunter_v0"], "rover": ["rover_v0"]}
OLD = [copy for its in COPIES.values() for copy in its]


def payoffs_with(*games: tuple[str, str, int, int]) -> PayOffs:
    """Return pay-offs with so many wins and losses of a first player with a second one."""
    payoffs = PayOffs()
    for player in (*ROLES, *OLD):
        payoffs.add_player(player)
    for first, second, wins, losses in games:
        for won in [1.0] * wins + [0.0] * losses:
            payoffs.add_game(first, second, won, 1 - won)
    return payoffs


def test_priorities_against_a_loop() -> None:
    rates = np.array([0.0, 0.5, 0.9, 1.0])
    weights = [(1 - p) ** 2 for p in rates]
    assert priorities(rates, 2) == pytest.approx([w / sum(weights) for w in weights])
    assert priorities(rates, 0) == pytest.approx([0.25] * 4)
    assert priorities(np.ones(3), 2) == pytest.approx([1 / 3] * 3)
    weights = [p * (1 - p) for p in rates]
    assert even_priorities(rates) == pytest.approx([w / sum(weights) for w in weights])


def test_a_main_learner_plays_itself_and_all_copies() -> None:
    config = LeagueConfig.of({"learners": ROLES, "self_play_share": 0.4})
    payoffs = payoffs_with(("main", "main_v0", 8, 0), ("main", "rover_v0", 0, 8))
    found = opponents_of("main", config, payoffs, COPIES)
    rates = [0.9, 0.5, 0.5, 0.1]  # two drawn games are added
    weights = [(1 - p) ** 2 for p in rates]
    assert found.pop("main") == pytest.approx(0.4)
    assert list(found) == OLD
    assert [*found.values()] == pytest.approx([0.6 * w / sum(weights) for w in weights])


def test_other_ways() -> None:
    ways = {
        "uniform": dict.fromkeys(OLD, 0.25),
        "latest": dict.fromkeys(("main_v1", "hunter_v0", "rover_v0"), 1 / 3),
    }
    settings = {"learners": ROLES, "self_play_share": 0.0}
    for opponents, wanted in ways.items():
        config = LeagueConfig.of({**settings, "opponents": opponents})
        for learner in ("main", "rover"):
            found = opponents_of(learner, config, payoffs_with(), COPIES)
            assert found == pytest.approx(wanted)


def test_a_main_exploiter_plays_main_learners_once_it_has_a_chance() -> None:
    config = LeagueConfig.of({"learners": ROLES})
    assert opponents_of("hunter", config, payoffs_with(), COPIES) == {"main": 1.0}
    hopeless = payoffs_with(("hunter", "main", 0, 30), ("hunter", "main_v1", 0, 6))
    found = opponents_of("hunter", config, hopeless, COPIES)
    weights = [0.25, (1 / 8) * (7 / 8)]
    assert found == pytest.approx(
        {"main_v0": weights[0] / sum(weights), "main_v1": weights[1] / sum(weights)}
    )


def test_chances_sum_to_one() -> None:
    config = LeagueConfig.of({"learners": ROLES})
    for learner in ROLES:
        found = opponents_of(learner, config, payoffs_with(("main", "hunter_v0", 3, 1)), COPIES)
        assert sum(found.values()) == pytest.approx(1)
