"""The best response to a policy, against a plain recursion over positions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.native import ConnectFour, TicTacToe
from trainables.runtime.envs.multi_agent.native.in_a_row import InARowGame
from trainables.runtime.league.best_response import (
    Likely,
    best_response_value,
    move_probabilities,
)


def uniform(seen: dict[str, np.ndarray]) -> np.ndarray:
    mask = seen["action_mask"]
    return np.asarray(mask / mask.sum(1, keepdims=True))


def leaning(seen: dict[str, np.ndarray]) -> np.ndarray:
    """Prefers cells by number, and those near the other's stones: another mixture everywhere."""
    boards = seen["observation"].reshape(len(seen["observation"]), -1, 2)
    moves = seen["action_mask"].shape[1]
    weights = seen["action_mask"] * (1.0 + np.arange(moves) + boards[:, :moves, 1] * 3)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def slow_value(game: InARowGame, likely: Likely, seat: int) -> float:
    known: dict[tuple[bytes, int], float] = {}

    def value(board: np.ndarray, mover: int) -> float:
        key = board.tobytes(), mover
        if key not in known:
            after, legal, wins = (part[0] for part in game.moves_from(board[None], mover))
            sign = -1.0 if mover == seat else 1.0
            each = {
                int(m): sign if wins[m] else 0.0 if after[m].all() else value(after[m], 1 - mover)
                for m in np.flatnonzero(legal)
            }
            chances = likely(game.seen_by(board[None], mover))[0]
            mean = sum(chances[m] * paid for m, paid in each.items())
            known[key] = float(mean) if mover == seat else max(each.values())
        return known[key]

    return value(np.zeros(game.num_cells, np.int8), 0)


def test_against_a_recursion() -> None:
    games = [TicTacToe(1), TicTacToe(1, rows=2, columns=4, length=3), ConnectFour(1, 3, 3, 3)]
    for (number, game), seat in itertools.product(enumerate(games), (0, 1)):
        likely = (uniform, leaning)[(number + seat) % 2]  # each pair of two once
        slow = pytest.approx(slow_value(game, likely, seat))
        assert best_response_value(game, likely, seat) == slow


def test_who_plays_perfectly_cannot_be_beaten() -> None:
    game = TicTacToe(1)
    known: dict[tuple[bytes, int], int] = {}

    def worth(board: np.ndarray, mover: int) -> int:
        """The value of the game to who is to move."""
        key = board.tobytes(), mover
        if key not in known:
            known[key] = max(_of_moves(board, mover).values())
        return known[key]

    def _of_moves(board: np.ndarray, mover: int) -> dict[int, int]:
        after, legal, wins = (part[0] for part in game.moves_from(board[None], mover))
        return {
            int(m): 1 if wins[m] else 0 if after[m].all() else -worth(after[m], 1 - mover)
            for m in np.flatnonzero(legal)
        }

    def perfect(seen: dict[str, np.ndarray]) -> np.ndarray:
        planes = seen["observation"].reshape(-1, 9, 2)
        boards = (planes[..., 0] + 2 * planes[..., 1]).astype(np.int8)
        best = []
        for board in boards:  # whoever is to move is player 1 here
            values = _of_moves(board, 0)
            best.append(max(values, key=lambda move: values[move]))
        return np.asarray(np.eye(9)[best])

    assert [best_response_value(game, perfect, seat) for seat in (0, 1)] == [0, 0]


def test_a_board_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.runtime.league.best_response.MAX_POSITIONS", 500)
    with pytest.raises(ConfigError, match="more than 500 positions"):
        best_response_value(ConnectFour(1), uniform, 0)


def test_probabilities_of_a_policy() -> None:
    game = TicTacToe(1)
    config = (
        PPOConfig()
        .environment("tic_tac_toe")
        .multi_agent(policies=["one"], policy_mapping_fn={"*": "one"})
    )
    with config.training(train_batch_size_per_learner=64, minibatch_size=64).build() as algo:
        policy = algo.policies["one"]
        seen = game.seen_by(np.array([[1, 2, 0, 0, 0, 0, 0, 0, 0]], np.int8), 0)
        sampled = move_probabilities(policy, explore=True)(seen)
        greedy = move_probabilities(policy)(seen)
        assert sampled.sum() == pytest.approx(1) and sampled[0, :2].max() < 1e-6
        assert greedy[0].tolist() == np.eye(9)[sampled[0].argmax()].tolist()
        assert 0 < best_response_value(game, move_probabilities(policy, explore=True), 0) <= 1
