"""`PayOffs`: how the games between each pair of players have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_PRIOR_GAMES = 2.0  # drawn games that each pair begins with, as far as win rates tell


class PayOffs:
    """Decayed counts of wins, draws and losses, and sums of returns, of each ordered pair.

    A game is won by who has the greater return. Before a pair's new game is counted, what it has is
    multiplied by the decay: the last 1 / (1 - decay) games or so are what counts.

    Args:
        decay: Of older games, in (0, 1]; 1: all count alike.

    Attributes:
        players: Their ids, in order of the matrices' rows and columns.
    """

    def __init__(self, decay: float = 1.0):
        self._decay = decay
        self.players: list[str] = []
        # By player (row) and opponent (column).
        self._games = np.zeros((0, 0))
        self._wins = np.zeros((0, 0))
        self._draws = np.zeros((0, 0))
        self._returns = np.zeros((0, 0))

    def _tables(self) -> tuple[np.ndarray, ...]:
        return self._games, self._wins, self._draws, self._returns

    def _set(self, tables: Sequence[np.ndarray]) -> None:
        self._games, self._wins, self._draws, self._returns = tables

    def add_player(self, player: str, like: str | None = None) -> None:
        """Add a player.

        Args:
            player: Its id, which is new.
            like: Whose games it takes over, as its copy; None: it has played none.
        """
        source = None if like is None else self.players.index(like)
        self.players.append(player)
        tables = [np.pad(table, (0, 1)) for table in self._tables()]
        if source is not None:
            for table in tables:
                table[-1, :-1], table[:-1, -1] = table[source, :-1], table[:-1, source]
        self._set(tables)

    def remove_player(self, player: str) -> None:
        """Forget a player."""
        index = self.players.index(player)
        del self.players[index]
        self._set([np.delete(np.delete(t, index, 0), index, 1) for t in self._tables()])

    def forget_games(self, player: str) -> None:
        """Forget all games of a player, which is another one from here on."""
        index = self.players.index(player)
        for table in self._tables():
            table[index, :] = table[:, index] = 0

    def add_game(self, first: str, second: str, first_return: float, second_return: float) -> None:
        """Count a game. One of a player with itself tells nothing, and counts nothing."""
        if first == second:
            return
        row, column = self.players.index(first), self.players.index(second)
        is_draw = float(first_return == second_return)
        for own, other, mine, theirs in (
            (row, column, first_return, second_return),
            (column, row, second_return, first_return),
        ):
            for table, value in zip(
                self._tables(), (1.0, float(mine > theirs), is_draw, mine), strict=True
            ):
                table[own, other] = table[own, other] * self._decay + value

    @property
    def games(self) -> np.ndarray:
        """Decayed numbers of games, `[P, P]`."""
        return self._games.copy()

    @property
    def scores(self) -> np.ndarray:
        """Decayed numbers of wins, a draw being half a one, `[P, P]`."""
        return self._wins + self._draws / 2

    def win_rates(self) -> np.ndarray:
        """Return the share of games that each player has won of each other one, `[P, P]`.

        Two drawn games are added to each pair, so that it is 0.5 of who has not met.
        """
        return (self.scores + _PRIOR_GAMES / 2) / (self._games + _PRIOR_GAMES)

    def mean_returns(self) -> np.ndarray:
        """Return the mean return of each player with each other one, `[P, P]`; NaN if unknown."""
        with np.errstate(invalid="ignore"):
            return np.where(self._games > 0, self._returns / self._games, np.nan)

    def get_state(self) -> dict[str, Any]:
        """Return a copy of all games."""
        tables = {n: table.copy() for n, table in zip(_NAMES, self._tables(), strict=True)}
        return {"players": list(self.players), **tables}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over `get_state`'s."""
        self.players = list(state["players"])
        size = len(self.players)
        self._set([np.array(state[n], np.float64).reshape(size, size) for n in _NAMES])


_NAMES = ("games", "wins", "draws", "returns")
