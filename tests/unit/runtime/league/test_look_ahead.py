"""The player that looks ahead, against a slow search of moves and replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.native import ConnectFour, TicTacToe
from trainables.runtime.envs.multi_agent.native.in_a_row import InARowGame
from trainables.runtime.league.look_ahead import LookAheadPolicy


def player(game: InARowGame, **config: Any) -> LookAheadPolicy:
    (group,) = game.groups
    return LookAheadPolicy(group.observation_space, group.action_space, config)


def good_moves(game: InARowGame, board: np.ndarray, mover: int, plies: int) -> set[int]:
    """Return the moves that a player may draw from, by trying each and each reply to it."""
    after, legal, wins = (part[0] for part in game.moves_from(board[None], mover))
    if wins.any():
        return {*np.flatnonzero(wins).tolist()}
    safe = [
        m for m in np.flatnonzero(legal).tolist() if plies == 1 or not _loses(game, after[m], mover)
    ]
    return {*(safe or np.flatnonzero(legal).tolist())}


def _loses(game: InARowGame, board: np.ndarray, mover: int) -> bool:
    return bool(game.moves_from(board[None], 1 - mover)[2].any())


def positions(game: InARowGame, number: int) -> list[tuple[np.ndarray, int]]:
    """Play random games; return boards that are not over, and who is to move."""
    rng = np.random.default_rng(0)
    found: list[tuple[np.ndarray, int]] = []
    while len(found) < number:
        board, mover = np.zeros(game.num_cells, np.int8), 0
        while True:
            found.append((board, mover))
            after, legal, wins = (part[0] for part in game.moves_from(board[None], mover))
            move = rng.choice(np.flatnonzero(legal))
            if wins[move] or (after[move] > 0).all():
                break
            board, mover = after[move], 1 - mover
    return found


@pytest.mark.parametrize("plies", [1, 2])
@pytest.mark.parametrize("game", [TicTacToe(1), ConnectFour(1)], ids=["cells", "columns"])
def test_moves_against_a_slow_search(game: InARowGame, plies: int) -> None:
    policy, rng = player(game, plies=plies), np.random.default_rng(1)
    found = positions(game, 150)
    num_choices = 0
    for board, mover in found:
        seen = {
            key: np.repeat(part, 200, 0) for key, part in game.seen_by(board[None], mover).items()
        }
        drawn = {*policy.compute_actions(seen, rng, seen["action_mask"]).tolist()}
        assert drawn == good_moves(game, board, mover, plies)
        num_choices += len(drawn) < seen["action_mask"][0].sum()
    assert num_choices > 20


def test_what_it_cannot_play_is_refused() -> None:
    (group,) = TicTacToe(1).groups
    with pytest.raises(ConfigError, match="'depth'; allowed: plies, length"):
        player(TicTacToe(1), depth=2)
    with pytest.raises(ConfigError, match="plies=3"):
        player(TicTacToe(1), plies=3)
    with pytest.raises(ConfigError, match="no game of rows"):
        LookAheadPolicy(spaces.Box(0, 1, (3,)), spaces.Discrete(3))
    with pytest.raises(ConfigError, match="no game of rows"):
        LookAheadPolicy(group.observation_space, spaces.Discrete(4))
