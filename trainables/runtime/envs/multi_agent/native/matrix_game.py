"""Two players, a table of what each pair of actions pays, and the same game again and again."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.envs.multi_agent.native.game import NativeGame, Outcome, checked_int
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup

PLAYERS = ("player_0", "player_1")

# What each player is paid, by its row (player 0's action) and its column (player 1's).
PAYOFFS: dict[str, list[list[list[float]]]] = {
    # Cooperate, defect.
    "prisoners_dilemma": [[[3, 0], [5, 1]], [[3, 5], [0, 1]]],
    # Rock, paper, scissors.
    "rock_paper_scissors": [
        [[0, -1, 1], [1, 0, -1], [-1, 1, 0]],
        [[0, 1, -1], [-1, 0, 1], [1, -1, 0]],
    ],
    "coordination": [[[1, 0], [0, 1]], [[1, 0], [0, 1]]],
}


class MatrixGame(NativeGame):
    """A repeated matrix game; both players act in each round.

    A player observes its own last action and the other's, one-hot one after the other, or zeros in
    the first round. After the last round both are truncated: nothing that they see tells it.

    Args:
        num_envs: Number of slots.
        payoffs: `prisoners_dilemma`, `rock_paper_scissors`, `coordination`, or two matrices of the
            same shape: what player 0 and what player 1 is paid, by player 0's action (rows) and
            player 1's (columns).
        rounds: Number of rounds in an episode.
    """

    def __init__(self, num_envs: int, payoffs: Any = "prisoners_dilemma", rounds: int = 10):
        self._payoffs = _payoffs(payoffs)
        self._rounds = checked_int("rounds", rounds, 1)
        self._sizes = self._payoffs.shape[1:]
        observation = spaces.Box(0, 1, (sum(self._sizes),), np.float32)
        actions = [spaces.Discrete(size) for size in self._sizes]
        if actions[0] == actions[1]:
            groups: tuple[AgentGroup, ...] = (AgentGroup(PLAYERS, observation, actions[0]),)
        else:
            groups = tuple(
                AgentGroup((player,), observation, space)
                for player, space in zip(PLAYERS, actions, strict=True)
            )
        super().__init__(num_envs, groups, ("last", "played"))
        # Each player's last action, `[N, 2]`, -1 before the first.
        self.last = np.full((num_envs, 2), -1, np.int64)
        self.played = np.zeros(num_envs, np.int64)

    def _begin(self, slots: np.ndarray) -> None:
        self.last[slots], self.played[slots] = -1, 0

    def _advance(self, actions: list[np.ndarray], playing: np.ndarray) -> Outcome:
        both = np.where(playing, np.concatenate(actions, axis=1), 0)
        self.last = np.where(playing, both, self.last)
        self.played += 1
        rewards = self._payoffs[:, both[:, 0], both[:, 1]].T
        truncated = (self.played >= self._rounds)[:, None]
        return Outcome(rewards, np.zeros_like(truncated), truncated)

    def _observe(self) -> list[Any]:
        # Row -1 of each table stands for no action yet.
        first, second = (
            np.vstack((np.eye(size, dtype=np.float32), np.zeros((1, size), np.float32)))[last]
            for size, last in zip(self._sizes, self.last.T, strict=True)
        )
        views = np.stack(
            (np.hstack((first, second)), np.hstack((second, first))), axis=1
        )  # [N, 2, observation]
        if len(self.groups) == 1:
            return [views.reshape(-1, views.shape[2])]
        return [views[:, 0], views[:, 1]]


def _payoffs(given: Any) -> np.ndarray:
    """Return what both players are paid, `[2, actions of player 0, actions of player 1]`."""
    if isinstance(given, str):
        if given not in PAYOFFS:
            raise ConfigError(
                f"env_config payoffs={given!r}; allowed: {', '.join(PAYOFFS)}, or two matrices"
                f"{suggestion(given, PAYOFFS)}"
            )
        given = PAYOFFS[given]
    try:
        payoffs = np.array(given, np.float64)
    except (TypeError, ValueError):
        payoffs = np.empty(0)
    if payoffs.ndim != 3 or len(payoffs) != 2 or not payoffs.size or not np.isfinite(payoffs).all():
        raise ConfigError(
            f"env_config payoffs={given!r}; allowed: {', '.join(PAYOFFS)}, or two matrices of the "
            "same shape and of finite numbers: [[[3, 0], [5, 1]], [[3, 5], [0, 1]]]"
        )
    return payoffs
