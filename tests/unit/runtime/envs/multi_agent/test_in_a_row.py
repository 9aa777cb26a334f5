"""Tic-tac-toe and Connect Four, against PettingZoo's and games played by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from trainables.runtime.envs.multi_agent.native import NATIVE, ConnectFour, TicTacToe
from trainables.runtime.envs.multi_agent.native.board import has_row, rows_of
from trainables.runtime.envs.multi_agent.native.in_a_row import InARowGame

PETTING_ZOO = {"tic_tac_toe": "tictactoe_v3", "connect_four": "connect_four_v3"}


def played(game: InARowGame, moves: list[int]) -> Any:
    """Reset a game of one slot, and make moves in turns; return the rows of the last step."""
    (rows,) = game.reset([0]).groups
    for move in moves:
        (rows,) = game.step([np.array([move, move])]).groups
    return rows


def slow_has_row(stones: np.ndarray, length: int) -> bool:
    rows, columns = stones.shape
    steps = ((0, 1), (1, 0), (1, 1), (1, -1))
    for row, column, (down, right) in itertools.product(range(rows), range(columns), steps):
        cells = [(row + k * down, column + k * right) for k in range(length)]
        if all(r < rows and 0 <= c < columns and stones[r, c] for r, c in cells):
            return True
    return False


@pytest.mark.parametrize(
    ("rows", "columns", "length"), [(3, 3, 3), (6, 7, 4), (2, 5, 2), (4, 1, 3)]
)
def test_rows_against_a_slow_search(rows: int, columns: int, length: int) -> None:
    rng = np.random.default_rng(0)
    boards = rng.random((300, rows, columns)) < rng.random((300, 1, 1))
    found = has_row(boards.reshape(300, -1), length, rows_of(rows, columns, length))
    expected = [slow_has_row(board, length) for board in boards]
    assert any(expected) and not all(expected)
    assert found.tolist() == expected


def test_the_numbers_of_rows_are_known() -> None:
    assert rows_of(3, 3, 3).shape == (9, 8)
    assert rows_of(6, 7, 4).shape == (42, 69)


@pytest.mark.parametrize("name", sorted(PETTING_ZOO))
def test_games_are_pettingzoos(name: str) -> None:
    """Whoever moves sees and is paid the same, also at illegal moves, and games end alike."""
    classic = pytest.importorskip("pettingzoo.classic")
    rng, num_wins = np.random.default_rng(0), 0
    for _ in range(30):
        game, other = NATIVE[name]({}, 1), getattr(classic, PETTING_ZOO[name]).env()
        step = game.reset([0])
        other.reset()
        agents = other.possible_agents
        assert list(game.agents) == agents
        assert game.groups[0].observation_space == other.observation_space(agents[0])
        assert game.groups[0].action_space == other.action_space(agents[0])
        has_begun = [False, False]
        while not step.is_over[0]:
            (rows,) = step.groups
            agent = other.agent_selection
            seat = agents.index(agent)
            assert rows.acts.tolist() == [seat == 0, seat == 1]
            assert rows.begins[seat] == (not has_begun[seat]) and not rows.begins[1 - seat]
            has_begun[seat] = True
            seen = other.observe(agent)
            for key in seen:
                np.testing.assert_array_equal(rows.obs[key][seat], seen[key])
            move = rng.choice(np.flatnonzero(seen["action_mask"]))
            if rng.random() < 0.02:
                move = rng.integers(len(seen["action_mask"]))
            shown = {key: part[1 - seat].copy() for key, part in rows.obs.items()}
            other.step(move)
            step = game.step([np.array([move, move])])
            (rows,) = step.groups
            assert step.is_over[0] == all(other.terminations.values())
            assert rows.rewards.tolist() == [other.rewards[each] for each in agents]
            num_wins += bool(rows.rewards.any())
            if not step.is_over[0] and has_begun[1]:  # who waits is shown nothing new
                waits = np.flatnonzero(~rows.acts)[0]
                assert waits == seat
                for key in seen:
                    np.testing.assert_array_equal(rows.obs[key][waits], seen[key])
            elif step.is_over[0]:
                assert rows.terminated.all() and not rows.truncated.any() and not rows.acts.any()
                last = rows.obs["observation"]
                np.testing.assert_array_equal(last[0], last[1][..., ::-1])  # both see the end
                assert (last[1 - seat] != shown["observation"]).any()
    assert num_wins > 10


def test_an_illegal_move_loses() -> None:
    rows = played(TicTacToe(1), [4, 4])
    assert rows.rewards.tolist() == [0, -1] and rows.terminated.all()
    rows = played(ConnectFour(1), [3] * 7)
    assert rows.rewards.tolist() == [-1, 0] and rows.terminated.all()


def test_a_full_board_is_a_draw() -> None:
    rows = played(TicTacToe(1), [0, 1, 2, 4, 3, 5, 7, 6, 8])
    assert rows.terminated.all() and not rows.rewards.any()


def test_a_stone_drops_on_those_that_are_there() -> None:
    game = ConnectFour(1)
    rows = played(game, [2, 2, 2])
    assert game.plies.reshape(6, 7)[:, 2].tolist() == [0, 0, 0, 3, 2, 1]
    assert rows.rewards.tolist() == [0, 0]
    assert played(game, [2, 3, 2, 3, 2, 3, 2]).rewards.tolist() == [1, -1]  # a column of four


def test_slots_are_apart() -> None:
    """A slot whose game is over only resets, whatever the others do."""
    game = TicTacToe(2)
    game.reset([0, 1])
    moves = [[0, 0], [3, 8], [1, 1], [4, 7], [2, 3]]  # slot 0 is won by its first player
    for first, second in moves:
        step = game.step([np.array([first, first, second, second])])
    assert step.is_over.tolist() == [True, False]
    assert step.groups[0].rewards.tolist() == [1, -1, 0, 0]
    step = game.step([np.array([5, 5, 4, 4])])
    assert step.resets.tolist() == [True, False] and not step.is_over.any()
    assert game.count.tolist() == [0, 6] and not game.plies[0].any()
    assert step.groups[0].acts.tolist() == [True, False, True, False]
    assert step.groups[0].begins.tolist() == [True, False, False, False]
