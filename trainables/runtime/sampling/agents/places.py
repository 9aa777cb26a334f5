"""`AgentPlace`: whose agents are stepped, for messages."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from trainables.runtime.envs.make import EnvName, env_name


class AgentPlace:
    """A `Place` of lanes: names the slot and the agent of each.

    Args:
        env: The environment.
        who: What steps it, e.g. "env runner 0".
        agents: The agents of the group, `[G]`.

    Attributes:
        rows: The row of each lane's agent in the group, `[L]`.
    """

    def __init__(self, env: EnvName, who: str, agents: Sequence[Hashable]):
        self.env, self.who, self._agents = env, who, agents
        self.rows = np.empty(0, np.int64)

    def slot(self, index: int) -> str:
        """Return how a lane is called."""
        slot, agent = divmod(int(self.rows[index]), len(self._agents))
        return (
            f"env {env_name(self.env)!r}, slot {slot} of {self.who}, agent {self._agents[agent]!r}"
        )

    def number(self, index: int) -> str:
        """Return the slot and the agent of a lane."""
        slot, agent = divmod(int(self.rows[index]), len(self._agents))
        return f"{slot}, for agent {self._agents[agent]!r}"
