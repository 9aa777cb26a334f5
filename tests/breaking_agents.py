"""Agents whose environments break, or meet; importing them takes neither torch nor Ray."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from telling_agents import RandomTurns

from trainables.runtime.envs.multi_agent.multi_agent_env import AgentDict


class BreakingAgents(RandomTurns):
    """Random turns; some slots break in the second step of an environment's first episode.

    Args:
        env_config: As that of `TellingAgents`, and

            - `breaks`: by slot how it breaks: "raise"; "die"; "make": it dies, and the first that
              replaces it cannot be made; "unmade": not even the first can; "api", "stranger" and
              "secret": it returns something wrong.
            - `once`: a folder; each slot breaks once then, in whatever process.
            - `tells`: steps tell of their process which large packages it has imported.
            - `meet`: a folder; each step of slots 0 and 1 waits until both have begun.
    """

    def __init__(self, env_config: Any):
        super().__init__(env_config)
        self.config, self.is_remote = env_config, env_config.remote
        self.what = env_config.get("breaks", {}).get(self.slot)
        self.num_steps = 0
        if self.what == "unmade" or (self.what == "make" and self._times("made") == 1):
            raise OSError("no licence")

    def step(self, action_dict: AgentDict) -> Any:
        self.num_steps += 1
        if "meet" in self.config:
            self._meet(Path(self.config["meet"]))
        breaks = self.what if (self.episode, self.t) == (0, 1) else None
        if breaks is not None and "once" in self.config and self._times("broken"):
            breaks = None
        if breaks in ("die", "make"):
            os.kill(os.getpid(), signal.SIGKILL)
        if breaks == "raise":
            raise OSError("lost")
        obs, rewards, terminateds, truncateds, infos = super().step(action_dict)
        if breaks == "api":
            del terminateds["__all__"]
        if breaks == "stranger":
            rewards["stranger"] = 1.0
        if "tells" in self.config:
            large = [name for name in ("torch", "ray") if name in sys.modules]
            infos["__common__"] = {"process": os.getpid(), "has": large}
        if breaks == "secret":
            infos["__common__"] = {"function": lambda: None}
        return obs, rewards, terminateds, truncateds, infos

    def _times(self, what: str) -> int:
        """Return how often something was noted of this slot before, in whatever process."""
        path = Path(self.config["once"]) / f"{what} {self.slot}"
        before = path.read_text() if path.exists() else ""
        path.write_text(before + ".")
        return len(before)

    def _meet(self, folder: Path) -> None:
        (folder / f"{self.slot} {self.num_steps}").touch()
        deadline = time.monotonic() + 20
        while not all((folder / f"{slot} {self.num_steps}").exists() for slot in range(2)):
            if time.monotonic() > deadline:
                raise TimeoutError("the other slot's step has not begun")
            time.sleep(0.001)


def breaking_by_function(env_config: Any) -> BreakingAgents:
    """A creator, which does not say that it makes one with several agents."""
    return BreakingAgents(env_config)


def shifted(agent_obs: AgentDict) -> AgentDict:
    """An `observation_fn`."""
    return {agent: obs + np.float32(1) for agent, obs in agent_obs.items()}
