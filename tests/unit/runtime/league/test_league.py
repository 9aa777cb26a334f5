"""The book of a league: who is frozen and dropped, who plays whom, and its state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainables.core.config.policies import LeagueConfig
from trainables.core.errors import ConfigError
from trainables.runtime.league.league import League
from trainables.runtime.sampling.agents.episode_book import Match


def league(seed: int = 0, **settings: Any) -> League:
    made = League(LeagueConfig.of(settings), seed)
    for learner in made.config.learners:
        made.freeze(learner, 0, 0)
    return made


def won(first: str, second: str, times: int) -> list[Match]:
    return [Match(first, second, 1.0, -1.0)] * times


def test_copies_after_iterations() -> None:
    book = league(freeze_every=3)
    assert [iteration for iteration in range(1, 7) if book.due(iteration)] == [3, 4, 5, 6]
    assert book.freeze("main", 3, 100) == ("main_v1", None)
    assert [iteration for iteration in range(4, 7) if book.due(iteration)] == [6]


def test_copies_after_wins() -> None:
    book = league(freeze_every=None, freeze_at_win_rate=0.75, win_rate_games=4)
    book.add_games(won("main", "main_v0", 3))
    assert book.due(1) == []  # three games say little
    book.add_games([Match("main_v0", "main", 1.0, -1.0)])
    assert book.win_rate("main") == 0.75 and book.due(1) == ["main"]
    book.freeze("main", 1, 10)
    assert book.due(2) == []


def test_games_with_itself_and_with_who_is_gone_count_nothing() -> None:
    book = league()
    book.add_games([*won("main", "main", 3), *won("main", "main_v9", 2)])
    assert book.win_rate("main") == 0.5 and book.payoffs.games.sum() == 0


def test_the_oldest_copies_but_the_first_are_dropped() -> None:
    book = league(max_copies=3)
    dropped = [book.freeze("main", i, i)[1] for i in range(1, 6)]
    assert dropped == [None, None, "main_v1", "main_v2", "main_v3"]
    assert book.copies_of("main") == ["main_v0", "main_v4", "main_v5"]
    assert book.payoffs.players == ["main", "main_v0", "main_v4", "main_v5"]
    assert book.ratings()["main_v0"] == 1_000


def test_exploiters_go_back() -> None:
    roles = {"main": "main", "hunter": "main_exploiter", "rover": "league_exploiter"}
    book = league(learners=roles, reset_probability=0.25)
    times = {name: sum(book.restarts(name, i) for i in range(2_000)) for name in roles}
    assert times["main"] == 0 and times["hunter"] == 2_000
    assert 400 < times["rover"] < 600
    book.add_games(won("hunter", "main", 5))
    book.restart("hunter")
    assert book.win_rate("hunter") == 0.5 and book.payoffs.games.sum() == 0


def test_learners_share_episodes_and_seats() -> None:
    book = league(learners={"main": "main", "hunter": "main_exploiter"})
    line_ups = book.line_ups(("player_0", "player_1"))
    shares: dict[tuple[str, str], float] = {}
    for line_up in line_ups:
        seats = (line_up["policies"]["player_0"], line_up["policies"]["player_1"])
        shares[seats] = shares.get(seats, 0) + line_up["weight"]
    assert sum(shares.values()) == pytest.approx(2)  # one for each learner
    for first, second in shares:
        assert shares[first, second] == pytest.approx(shares[second, first])
    assert shares["main", "main"] == pytest.approx(0.35)
    assert shares["hunter", "main"] == pytest.approx(0.5)


def test_results_have_a_learners_row_of_the_pay_offs() -> None:
    book = league(learners={"main": "main", "hunter": "main_exploiter"})
    for number in range(22):
        book.freeze("main", number, number)
    games = [("main", "main_v0", 5), ("main", "main_v3", 8), ("hunter", "main", 2)]
    book.add_games([match for pair in games for match in won(*pair)])
    found = {n: value for n, value in book.metrics().items() if "/against/" in n}
    # main_v0 is not among the last 20; none has met itself.
    assert {*found} == {
        "league/main/against/main_v3",
        "league/main/against/hunter",
        "league/hunter/against/main",
    }
    players, rates = book.payoffs.players, book.payoffs.win_rates()
    for name, rate in found.items():
        _, learner, _, opponent = name.split("/")
        assert rate == rates[players.index(learner), players.index(opponent)]
    assert found["league/main/against/main_v3"] > 0.7 > 0.5 > found["league/main/against/hunter"]


def test_a_damaged_state_is_one_error_and_changes_nothing() -> None:
    book = league(seed=5)
    book.add_games(won("main", "main_v0", 7))
    good = book.get_state()
    for bad in ({}, {**good, "copies": [1]}, {**good, "recent": []}, {**good, "seed": "x"}, "x"):
        with pytest.raises(ConfigError, match=r"the state of a league is damaged: .*; needed"):
            book.set_state(bad)  # type: ignore[arg-type]
        assert str(book.get_state()) == str(good)


def test_state_goes_through_json_and_decides_alike() -> None:
    roles = {"main": "main", "rover": "league_exploiter"}
    book, other = league(seed=5, learners=roles), league(seed=6, learners=roles)
    book.add_games([*won("main", "main_v0", 7), *won("main_v0", "rover", 2)])
    book.freeze("main", 4, 123)
    state = book.get_state()
    state["payoffs"] = {
        name: part if isinstance(part, list) else part.tolist()
        for name, part in state["payoffs"].items()
    }
    other.set_state(json.loads(json.dumps(state)))
    agents = ("a", "b")
    assert other.line_ups(agents) == book.line_ups(agents)
    assert other.ratings() == book.ratings() and other.metrics() == book.metrics()
    for iteration in range(5, 60):
        assert other.due(iteration) == book.due(iteration)
        assert other.restarts("rover", iteration) == book.restarts("rover", iteration)
