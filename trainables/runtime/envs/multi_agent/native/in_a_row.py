"""Tic-tac-toe, Connect Four and their like: two players in turns, and who has a row has won."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.native.board import (
    has_row,
    landing_cells,
    rows_of,
    with_stone,
)
from trainables.runtime.envs.multi_agent.native.game import NativeGame, Outcome, checked_int
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup

_MOST_CELLS = 1_024  # more is a mistake: a game of 32 x 32 cells


class InARowGame(NativeGame):
    """An m,n,k-game: the first player with k stones in a row, in any direction, wins.

    What is observed and paid is what PettingZoo's classic games have: the player to move sees
    `{"observation": [rows, columns, 2], "action_mask": [moves]}`, its own stones in plane 0 and the
    other's in plane 1. The winner is paid 1 and the loser -1, in the step in which the game ends;
    a full board is a draw, of 0. An illegal move ends the game, too, and its player is paid -1.

    Args:
        num_envs: Number of slots.
        players: The ids of both, the first to move first.
        rows: Rows of the board.
        columns: Columns.
        length: Stones in a row that win, k.
        drops: A move is a column, in which the stone drops on those that are there; else a cell,
            counted row by row from the top left.

    Attributes:
        num_cells: Cells of the board.

    Raises:
        ConfigError: if no player could win on such a board.
    """

    def __init__(
        self,
        num_envs: int,
        players: tuple[str, str],
        rows: int,
        columns: int,
        length: int,
        drops: bool,
    ):
        rows, columns = checked_int("rows", rows, 1), checked_int("columns", columns, 1)
        length = checked_int("length", length, 2)
        if length > max(rows, columns) or rows * columns > _MOST_CELLS:
            raise ConfigError(
                f"env_config rows={rows}, columns={columns}, length={length}; allowed: at most "
                f"{_MOST_CELLS} cells, and a length that fits on the board"
            )
        self._size, self._length, self._drops = (rows, columns), length, drops
        self._table, self.num_cells = rows_of(rows, columns, length), rows * columns
        num_moves = columns if drops else rows * columns
        seen = spaces.Dict(
            {
                "observation": spaces.Box(0, 1, (rows, columns, 2), np.int8),
                "action_mask": spaces.Box(0, 1, (num_moves,), np.int8),
            }
        )
        group = AgentGroup(players, seen, spaces.Discrete(num_moves))
        super().__init__(num_envs, (group,), ("plies", "count"))
        # In which ply each cell got its stone, from 1 on, and 0 where there is none: `[N, cells]`.
        # The first player's stones are those of odd plies.
        self.plies = np.zeros((num_envs, self.num_cells), np.int16)
        self.count = np.zeros(num_envs, np.int64)  # plies that were played

    def _begin(self, slots: np.ndarray) -> None:
        self.plies[slots], self.count[slots] = 0, 0

    def _asked(self, playing: np.ndarray) -> np.ndarray:
        return playing & (self.count[:, None] % 2 == np.arange(2))

    def _first_asked(self, asked: np.ndarray, resets: np.ndarray) -> np.ndarray:
        return asked & (self.count < 2)[:, None]

    def _advance(self, actions: list[np.ndarray], acting: np.ndarray) -> Outcome:
        slots, mover = np.arange(self.num_envs), self.count % 2
        is_on = acting.any(1)
        moves = np.where(is_on, actions[0][slots, mover], 0)
        cells, are_legal = landing_cells((self.plies > 0).reshape(-1, *self._size), self._drops)
        is_legal = are_legal[slots, moves]
        placed = slots[is_on & is_legal]
        self.count[placed] += 1
        self.plies[placed, cells[slots, moves][placed]] = self.count[placed]
        movers = (self.plies > 0) & ((self.plies - 1) % 2 == mover[:, None])
        has_won = is_legal & has_row(movers, self._length, self._table)
        sign = np.where(mover == 0, 1.0, -1.0)[:, None] * np.array([1.0, -1.0])  # 1: the mover
        rewards = np.where(has_won[:, None], sign, 0.0)
        rewards = np.where(is_legal[:, None], rewards, np.minimum(-sign, 0.0))
        is_over = has_won | ~is_legal | (self.count == self.num_cells)
        return Outcome(rewards, is_over[:, None], np.zeros_like(is_over)[:, None])

    def _observe(self) -> list[Any]:
        # Who waits is shown what it was shown last, before its own move; all see how a game ends.
        seats = np.arange(2)
        waits = (self.count[:, None] % 2 != seats) & ~self._over[:, None]
        shown = (self.count[:, None] - waits)[..., None]  # plies, `[N, 2, 1]`
        plies = self.plies[:, None]
        stones = (plies > 0) & (plies <= shown)  # `[N, 2, cells]`
        own = stones & ((plies - 1) % 2 == seats[:, None])
        seen = self._views(*(part.reshape(-1, self.num_cells) for part in (own, stones & ~own)))
        seen["action_mask"] *= shown.reshape(-1, 1) >= 0  # at first the second is shown nothing
        return [seen]

    def _views(self, own: np.ndarray, others: np.ndarray) -> dict[str, np.ndarray]:
        """Return observations of players by their and the others' stones, `[B, cells]`."""
        planes = np.stack((own, others), -1).astype(np.int8)
        _, legal = landing_cells((own | others).reshape(-1, *self._size), self._drops)
        return {
            "observation": planes.reshape(-1, *self._size, 2),
            "action_mask": legal.astype(np.int8),
        }

    # ------------------------------------------------------------------ for searches

    def seen_by(self, boards: np.ndarray, player: int) -> dict[str, np.ndarray]:
        """Return what a player that is to move sees of boards, as observations are batched.

        Args:
            boards: `[B, cells]`: 0 where no stone is, else the number of its player, 1 or 2.
            player: 0 or 1.
        """
        return self._views(boards == player + 1, boards == 2 - player)

    def moves_from(
        self, boards: np.ndarray, player: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the boards after each move of a player.

        Args:
            boards: As `seen_by` takes them.
            player: 0 or 1.

        Returns:
            Boards `[B, moves, cells]`; which moves are legal; and which of these win, `[B, moves]`,
            bool. Boards after illegal moves mean nothing.
        """
        cells, legal = landing_cells((boards > 0).reshape(-1, *self._size), self._drops)
        after = with_stone(boards, cells, player + 1)
        return after, legal, legal & has_row(after == player + 1, self._length, self._table)


class TicTacToe(InARowGame):
    """Tic-tac-toe, on a board of any size: `InARowGame` in which a move is a cell.

    Args:
        num_envs: Number of slots.
        rows: Rows of the board.
        columns: Columns.
        length: Stones in a row that win.
    """

    def __init__(self, num_envs: int, rows: int = 3, columns: int = 3, length: int = 3):
        super().__init__(num_envs, ("player_1", "player_2"), rows, columns, length, drops=False)


class ConnectFour(InARowGame):
    """Connect Four, on a board of any size: `InARowGame` in which a move is a column.

    Args:
        num_envs: Number of slots.
        rows: Rows of the board.
        columns: Columns.
        length: Stones in a row that win.
    """

    def __init__(self, num_envs: int, rows: int = 6, columns: int = 7, length: int = 4):
        super().__init__(num_envs, ("player_0", "player_1"), rows, columns, length, drops=True)
