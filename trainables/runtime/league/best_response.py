"""What a perfect opponent wins of a policy in a small game of rows, exactly, by minimax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.multi_agent.native.in_a_row import InARowGame
from trainables.runtime.league.average import chances_of

MAX_POSITIONS = 1_000_000
Likely = Callable[[dict[str, np.ndarray]], np.ndarray]


def best_response_value(game: InARowGame, likely: Likely, seat: int) -> float:
    """Return the mean pay of an opponent that plays best against a policy it knows.

    All positions that the two can come to are looked at, those of a ply together: of its own moves
    the opponent takes the best one, of the policy's it has the mean. It is exact for policies that
    look at the board alone, deterministic or not, of a game small enough: tic-tac-toe has 5,478
    positions, Connect Four 4.5e12.

    Args:
        game: Its rules. Nothing is played in it.
        likely: The policy: how likely each move is, `[B, moves]`, given observations as the game
            batches them; see `move_probabilities`.
        seat: Which player the policy is, 0 or 1.

    Returns:
        From -1 to 1. 0 of a game that ends in a draw if both play best, such as tic-tac-toe: the
        policy cannot be beaten. An exploitability is the mean of both seats.

    Raises:
        ConfigError: if the game has more than a million positions in a ply.
    """
    plies: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    boards = np.zeros((1, game.num_cells), np.int8)
    for ply in range(game.num_cells):
        if len(boards) > MAX_POSITIONS:
            raise ConfigError(
                f"the game has more than {MAX_POSITIONS:,} positions after {ply} plies: too many "
                "for an exact best response; allowed: a smaller board, such as tic-tac-toe's"
            )
        mover = ply % 2
        after, legal, is_won = game.moves_from(boards, mover)
        chances = np.zeros(legal.shape)
        if mover == seat:
            given = np.asarray(likely(game.seen_by(boards, mover)), np.float64)
            chances = np.where(legal, given, 0.0)
            legal = chances > 0
        is_final = is_won | (ply + 1 == game.num_cells)
        goes_on = legal & ~is_final
        children, which = np.unique(after[goes_on], axis=0, return_inverse=True)
        places = np.zeros(legal.shape, np.int64)
        places[goes_on] = which.reshape(-1)
        paid = np.where(is_won, -1.0 if mover == seat else 1.0, 0.0)
        plies.append((chances, legal, np.where(goes_on, np.nan, paid), places))
        boards = children
        if not len(boards):
            break
    values = np.zeros(1)
    for ply, (chances, legal, paid, places) in reversed([*enumerate(plies)]):
        of_moves = np.where(np.isnan(paid), values[places], paid)
        if ply % 2 == seat:
            values = (chances * of_moves).sum(1)
        else:
            values = np.where(legal, of_moves, -np.inf).max(1)
    return float(values[0])


def move_probabilities(policy: Policy, *, explore: bool = False) -> Likely:
    """Return how likely each discrete action of a policy is, as `best_response_value` asks.

    Args:
        policy: It has no memory.
        explore: As it samples its actions; else 1 for the one that it takes without exploration.
    """

    def likely(observations: dict[str, np.ndarray]) -> np.ndarray:
        computed: Any = policy.compute_actions(observations, explore=False, full_fetch=True)
        logits = np.asarray(computed.extra["action_dist_inputs"], np.float64)
        if not explore:
            return np.asarray(np.eye(logits.shape[1])[np.asarray(computed.actions)])
        return chances_of(logits)

    return likely
