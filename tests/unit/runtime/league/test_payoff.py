"""Pay-offs of pairs, against games counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

from trainables.runtime.league.payoff import PayOffs

PLAYERS = ("a", "b", "c")


def random_games(number: int = 200) -> list[tuple[str, str, float, float]]:
    rng = np.random.default_rng(0)
    return [
        (
            PLAYERS[rng.integers(3)],
            PLAYERS[rng.integers(3)],
            float(rng.integers(-1, 2)),
            float(rng.integers(-1, 2)),
        )
        for _ in range(number)
    ]


def table_of(games: list[tuple[str, str, float, float]], decay: float = 1.0) -> PayOffs:
    payoffs = PayOffs(decay)
    for player in PLAYERS:
        payoffs.add_player(player)
    for game in games:
        payoffs.add_game(*game)
    return payoffs


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_each_pair_against_a_slow_count(decay: float) -> None:
    games = random_games()
    payoffs = table_of(games, decay)
    for i, player in enumerate(PLAYERS):
        for j, other in enumerate(PLAYERS):
            results = [(r, s) for p, q, r, s in games if (p, q) == (player, other)]
            both = [
                (r, s) if p == player else (s, r)
                for p, q, r, s in games
                if {p, q} == {player, other} and p != q
            ]
            assert results
            weights = [decay ** (len(both) - 1 - k) for k in range(len(both))]
            wins = sum(
                w * ((r > s) + 0.5 * (r == s)) for w, (r, s) in zip(weights, both, strict=True)
            )
            assert payoffs.games[i, j] == pytest.approx(sum(weights))
            assert payoffs.scores[i, j] == pytest.approx(wins)
            assert payoffs.win_rates()[i, j] == pytest.approx((wins + 1) / (sum(weights) + 2))
            if i != j:
                mean = sum(w * r for w, (r, _) in zip(weights, both, strict=True)) / sum(weights)
                assert payoffs.mean_returns()[i, j] == pytest.approx(mean)


def test_both_orders_of_a_pair_agree() -> None:
    payoffs = table_of(random_games())
    rates = payoffs.win_rates()
    assert np.allclose(rates + rates.T, 1)
    assert np.isnan(np.diag(payoffs.mean_returns())).all()  # games with itself do not count


def test_a_copy_takes_over_games_and_goes_its_own_way() -> None:
    payoffs = table_of(random_games())
    before = payoffs.games
    payoffs.add_player("a_v0", like="a")
    assert np.allclose(payoffs.games[3, :3], before[0])
    assert payoffs.games[3, 0] == payoffs.games[0, 3] == 0  # it has not met whom it is a copy of
    payoffs.add_game("a", "b", 1, 0)
    assert payoffs.games[3, 1] == before[0, 1]
    payoffs.forget_games("a")
    assert payoffs.games[0].sum() == payoffs.games[:, 0].sum() == 0
    payoffs.remove_player("a")
    assert payoffs.players == ["b", "c", "a_v0"]
    assert np.allclose(payoffs.games[:2, :2], before[1:, 1:])
    assert payoffs.games[2, 0] == before[0, 1]


def test_state() -> None:
    payoffs, other = table_of(random_games()), PayOffs()
    other.set_state(payoffs.get_state())
    assert other.players == payoffs.players
    assert np.array_equal(other.scores, payoffs.scores)
    assert np.array_equal(other.mean_returns(), payoffs.mean_returns(), equal_nan=True)
