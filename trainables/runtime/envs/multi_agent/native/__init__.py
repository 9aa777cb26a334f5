"""Games for several agents whose slots and agents are stepped together, as arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.envs import kinds
from trainables.runtime.envs.multi_agent.native.cartpole import CartPoleAgents
from trainables.runtime.envs.multi_agent.native.convoy import ConvoyGame
from trainables.runtime.envs.multi_agent.native.grid_world import GridWorldAgents
from trainables.runtime.envs.multi_agent.native.in_a_row import ConnectFour, TicTacToe
from trainables.runtime.envs.multi_agent.native.matrix_game import MatrixGame
from trainables.runtime.envs.multi_agent.native.two_step_game import TwoStepGame
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv

__all__ = [
    "NATIVE",
    "CartPoleAgents",
    "ConnectFour",
    "ConvoyGame",
    "GridWorldAgents",
    "MatrixGame",
    "TicTacToe",
    "TwoStepGame",
]


def _maker(
    name: str, game: Callable[..., AgentsVectorEnv]
) -> Callable[[dict[str, Any], int], AgentsVectorEnv]:
    """Return what makes a game of its env_config and its number of slots."""
    known = [key for key in inspect.signature(game).parameters if key != "num_envs"]

    def make(env_config: dict[str, Any], num_envs: int) -> AgentsVectorEnv:
        unknown = next((key for key in env_config if key not in known), None)
        if unknown is not None:
            allowed = ", ".join(known) or "nothing"
            raise ConfigError(
                f"env {name!r}: env_config has no {unknown!r}; allowed: {allowed}"
                f"{suggestion(unknown, known)}"
            )
        try:
            return game(num_envs, **env_config)
        except ConfigError as error:
            raise ConfigError(f"env {name!r}: {error}") from None

    return make


# By name, what makes a game of its env_config and its number of slots.
NATIVE: dict[str, Callable[[dict[str, Any], int], AgentsVectorEnv]] = {
    name: _maker(name, game)
    for name, game in zip(
        kinds.NATIVE,
        (
            CartPoleAgents,
            GridWorldAgents,
            MatrixGame,
            TwoStepGame,
            TicTacToe,
            ConnectFour,
            ConvoyGame,
        ),
        strict=True,
    )
}
