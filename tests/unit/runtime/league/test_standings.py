"""The order of a league's players, who has not met, and ratings at the steps of copies."""

from __future__ import annotations

import numpy as np

from trainables.core.config.policies import LeagueConfig
from trainables.runtime.league.league import League
from trainables.runtime.league.standings import standings_of
from trainables.runtime.sampling.agents.episode_book import Match


def league(**settings: object) -> League:
    learners = {"main": "main", "hunter": "main_exploiter"}
    made = League(LeagueConfig.of({"learners": learners, "game_decay": 1.0, **settings}), 0)
    for learner in learners:
        made.freeze(learner, 0, 0)
    return made


def test_each_learners_copies_by_age_and_then_itself() -> None:
    made = league(max_copies=2)
    made.freeze("main", 2, 200)
    made.freeze("hunter", 3, 300)
    made.freeze("main", 4, 400)
    found = standings_of(made, 500)
    assert found.players == ("main_v0", "main_v2", "main", "hunter_v0", "hunter_v1", "hunter")
    assert found.learners == ("main",) * 3 + ("hunter",) * 3
    assert found.num_env_steps.tolist() == [0, 400, 500, 0, 300, 500]


def test_rates_are_of_games_alone_and_unknown_where_there_were_none() -> None:
    made = league()
    made.add_games(
        [
            Match("main", "hunter", 1.0, -1.0),
            Match("hunter", "main", 0.0, 0.0),
            Match("main", "main_v0", -1.0, 1.0),
            Match("main", "main", 1.0, -1.0),  # with itself tells nothing
        ]
    )
    found = standings_of(made, 100)
    assert found.players == ("main_v0", "main", "hunter_v0", "hunter")
    nan = np.nan
    expected = [[nan, 1, nan, nan], [0, nan, nan, 0.75], [nan] * 4, [nan, 0.25, nan, nan]]
    np.testing.assert_array_equal(found.win_rates, expected)
    mean = [[nan, 1, nan, nan], [-1, nan, nan, 0.5], [nan] * 4, [nan, -0.5, nan, nan]]
    np.testing.assert_array_equal(found.mean_returns, mean)
    assert found.games.tolist() == [[0, 1, 0, 0], [1, 0, 0, 2], [0] * 4, [0, 2, 0, 0]]
    rated = made.ratings()
    assert found.ratings[[0, 1, 3]].tolist() == [1_000, rated["main"], rated["hunter"]]
    assert np.isnan(found.ratings[2])  # hunter_v0 has met nobody


def test_games_of_constant_sum() -> None:
    opponents = ["hunter", "main_v0"]
    cases: list[tuple[list[tuple[float, float]], bool]] = [
        ([(1.0, -1.0), (-1.0, 1.0)], True),
        ([(3.0, 7.0), (5.0, 5.0)], True),
        ([(0.1 + 0.2, -0.3), (1.0, -1.0)], True),  # but for rounding
        ([(5.0, 0.0), (3.0, 3.0)], False),  # a prisoner's dilemma
        ([(1.0, -1.0), (1.0, 0.0)], False),
        ([(1.0, -1.0)], True),
        ([(4.0, 4.0)], False),  # of one pair alone it may be anything
        ([], False),
    ]
    for games, is_constant_sum in cases:
        made = league()
        made.add_games(Match("main", o, *r) for o, r in zip(opponents, games, strict=False))
        assert standings_of(made, 100).is_constant_sum is is_constant_sum, games
