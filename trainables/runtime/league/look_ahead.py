"""A player of games of rows that looks one or two plies ahead, and else plays anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.errors import ConfigError
from trainables.core.policy.fixed_policy import FixedPolicy
from trainables.runtime.envs.multi_agent.native.board import (
    has_row,
    landing_cells,
    rows_of,
    with_stone,
)
from trainables.runtime.envs.multi_agent.native.game import checked_int

_KEYS = ("plies", "length")


class LookAheadPolicy(FixedPolicy):
    """Wins where it can with its move; of other moves it draws one.

    With `plies: 2` these are the moves after which the other cannot win with its next one, if there
    are any. For `tic_tac_toe` and `connect_four`, and PettingZoo's games of these names.

    Args:
        observation_space: That of `InARowGame`.
        action_space: A move is a cell, or a column in which a stone drops.
        config: `plies`, 1 or 2, which is 1 if it is left out; `length`, the stones in a row that
            win: if it is left out 3 on a board of 3 x 3, else 4.

    Raises:
        ConfigError: if the spaces are of no such game, or the config has something else.
    """

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        config: Mapping[str, Any] | None = None,
    ):
        super().__init__(observation_space, action_space, config)
        unknown = next((key for key in self.config if key not in _KEYS), None)
        if unknown is not None:
            raise ConfigError(f"config has no {unknown!r}; allowed: {', '.join(_KEYS)}")
        self._size, self._drops = _board_of(observation_space, action_space)
        self._plies = checked_int("plies", self.config.get("plies", 1), 1, 2)
        usual = 3 if self._size == (3, 3) else 4
        longest = max(self._size)
        self._length = checked_int("length", self.config.get("length", usual), 2, longest)
        self._table = rows_of(*self._size, self._length)

    def compute_actions(
        self, observations: Any, rng: np.random.Generator, masks: np.ndarray | None = None
    ) -> np.ndarray:
        planes = np.asarray(observations["observation"]) > 0
        own, others = planes.reshape(len(planes), -1, 2).transpose(2, 0, 1)
        cells, legal = self._moves(own | others)
        wins = legal & self._would_win(own, cells)
        is_good = wins | (legal & ~wins.any(1, keepdims=True) & self._is_safe(own, others, cells))
        is_good |= legal & ~is_good.any(1, keepdims=True)  # all lose
        return np.asarray((rng.random(legal.shape) * is_good).argmax(1))

    def _moves(self, stones: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return landing_cells(stones.reshape(-1, *self._size), self._drops)

    def _would_win(self, own: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """Tell which cells complete a row of a player's stones, `[B, moves]`, bool.

        Args:
            own: The player's stones, `[B, cells]`, bool.
            cells: `[B, moves]`.
        """
        return has_row(with_stone(own, cells, True), self._length, self._table)

    def _is_safe(self, own: np.ndarray, others: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """Tell after which moves the other cannot win at once, `[B, moves]`, bool."""
        if self._plies == 1:
            return np.ones(cells.shape, bool)
        after = with_stone(own, cells, True).reshape(-1, own.shape[1])
        waiting = np.repeat(others, cells.shape[1], 0)
        replies, are_legal = self._moves(after | waiting)
        loses = (are_legal & self._would_win(waiting, replies)).any(1)
        return ~loses.reshape(cells.shape)


def _board_of(seen: gym.Space, moves: gym.Space) -> tuple[tuple[int, int], bool]:
    """Return a board's rows and columns, and whether stones drop.

    Raises:
        ConfigError: if the spaces are of another game.
    """
    parts = seen.spaces if isinstance(seen, gym.spaces.Dict) else {}
    shape = parts["observation"].shape or () if "observation" in parts else ()
    if len(shape) == 3 and shape[2] == 2 and isinstance(moves, gym.spaces.Discrete):
        rows, columns, _ = shape
        if moves.n in (columns, rows * columns):
            return (rows, columns), bool(moves.n == columns)
    raise ConfigError(
        f"LookAheadPolicy: {seen} with {moves} is no game of rows; allowed: the spaces of "
        "tic_tac_toe and connect_four"
    )
