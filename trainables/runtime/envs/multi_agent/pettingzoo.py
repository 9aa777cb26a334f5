"""PettingZoo's environments as `MultiAgentEnv`: all agents at once (parallel), or in turn (AEC).

Neither torch nor Ray may be imported here, and PettingZoo only where one of its games is made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.forms import ALL, MultiAgentApiError
from trainables.runtime.envs.multi_agent.multi_agent_env import AgentDict, MultiAgentEnv
from trainables.runtime.envs.multi_agent.pettingzoo_names import game_module, missing_dependency

OBSERVATION, MASK = "observation", "action_mask"  # as PettingZoo's own games call them

_WRAPPERS = "pettingzoo.utils.wrappers"
# Those of PettingZoo's wrappers that remember nothing from step to step, or only what `observe`
# tells them anew.
_FORGETFUL = {
    "AssertOutOfBoundsWrapper",
    "BaseParallelWrapper",
    "BaseWrapper",
    "CaptureStdoutWrapper",
    "ClipOutOfBoundsWrapper",
    "OrderEnforcingWrapper",
    "TerminateIllegalWrapper",
}


class PettingZooAdapter(MultiAgentEnv):
    """What both adapters have in common: spaces, action masks, and agents that end once.

    Observations with an `action_mask` are passed on as they are. Where a game gives masks in its
    infos instead, the agent observes `{"observation": …, "action_mask": …}`: to learn of them, the
    environment is reset once, without a seed, when it is wrapped.

    Args:
        env: The environment of PettingZoo.

    Raises:
        ConfigError: if it does not say which agents there may be.
    """

    def __init__(self, env: Any):
        super().__init__()
        self.env = env
        self.metadata = dict(getattr(env, "metadata", {}))
        self.render_mode = getattr(env, "render_mode", None)
        self.possible_agents = _possible_agents(env)
        self.agents = []
        self._seen: dict[Hashable, gym.Space] = {
            a: env.observation_space(a) for a in self.possible_agents
        }
        self._done = {a: env.action_space(a) for a in self.possible_agents}
        self.observation_spaces, self.action_spaces = self._seen, self._done
        self._ended: set[Hashable] = set()
        self._asked: list[Hashable] = []
        # Agents whose masks come in infos, and how long these are.
        self._masked: dict[Hashable, int] = {}
        self._find_masks()

    @abstractmethod
    def _first_infos(self) -> dict[Hashable, dict[str, Any]]:
        """Reset, and return the infos of all agents."""

    def _find_masks(self) -> None:
        without = {
            agent: int(actions.n)
            for agent, actions in self._done.items()
            if isinstance(actions, spaces.Discrete) and not _has_mask(self._seen[agent])
        }
        if not without or not any(MASK in info for info in self._first_infos().values()):
            return
        self._masked = without
        for agent, size in without.items():
            mask = spaces.Box(0, 1, (size,), np.int8)
            self._seen[agent] = spaces.Dict({OBSERVATION: self._seen[agent], MASK: mask})

    def _shown(self, agent: Hashable, obs: Any, info: dict[str, Any]) -> Any:
        """Return what an agent observes, with the mask of its info if its masks come there.

        Raises:
            MultiAgentApiError: if the info has a mask, but none was expected.
        """
        if agent in self._masked:
            # Without one, as an ended agent may be, all actions are allowed.
            mask = info.get(MASK, np.ones(self._masked[agent], np.int8))
            return {OBSERVATION: obs, MASK: np.asarray(mask, np.int8)}
        if MASK in info and not _has_mask(self._seen[agent]):
            raise MultiAgentApiError(
                f"the info of agent {agent!r} has an action_mask, which must be there from the "
                f"reset on, and be for Discrete actions; its actions are {self._done[agent]}"
            )
        return obs

    def _check_actions(self, action_dict: AgentDict) -> None:
        if set(action_dict) != set(self._asked):
            raise MultiAgentApiError(
                f"actions of the agents {list(action_dict)} were given; those that are to act are "
                f"{self._asked}"
            )

    def _begin(self) -> None:
        self.agents, self._ended = list(self.env.agents), set()
        if not self.agents:
            raise MultiAgentApiError("there are no agents after the reset")

    def _go_on(self, terminated: AgentDict, truncated: AgentDict) -> tuple[AgentDict, AgentDict]:
        """Take note of who has ended; complete the ends with that of the episode.

        An episode in whose last step nobody terminated was cut off.
        """
        self._ended |= {a for a in terminated if terminated[a] or truncated[a]}
        self.agents = [a for a in self.env.agents if a not in self._ended]
        is_over, is_terminal = not self.agents, any(terminated.values())
        return (
            {**terminated, ALL: is_over and is_terminal},
            {**truncated, ALL: is_over and not is_terminal},
        )

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def get_state(self) -> dict[str, Any] | None:
        """Return the game's own state and who takes part, None if the game cannot give its own."""
        raw = _raw_with_state(self.env)
        own = None if raw is None else raw.get_state()
        if own is None:
            return None
        return {
            "own": own,
            "agents": list(self.agents),
            "ended": list(self._ended),
            "asked": list(self._asked),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`'s; the environment was made alike and reset once."""
        raw = _raw_with_state(self.env)
        if raw is None:
            raise ConfigError(f"env {self.env} has no set_state")
        raw.set_state(state["own"])
        self.agents, self._asked = list(state["agents"]), list(state["asked"])
        self._ended = set(state["ended"])


class PettingZooParallel(PettingZooAdapter):
    """A `ParallelEnv`: all agents that take part act in each step.

    An agent that the game removes without saying how it ended has terminated.

    Args:
        env: The `ParallelEnv`, wrapped or not.
    """

    def _first_infos(self) -> dict[Hashable, dict[str, Any]]:
        infos: dict[Hashable, dict[str, Any]] = self.env.reset()[1]
        return infos

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        obs, infos = self.env.reset(seed=seed, options=options)
        self._begin()
        return self._observed(obs, infos, self.agents)

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        self._check_actions(action_dict)
        before = self.agents
        obs, rewards, ends, cuts, infos = self.env.step(dict(action_dict))
        present = set(self.env.agents)
        joined = [a for a in self.env.agents if a not in before and a not in self._ended]
        part = [*before, *joined]
        truncated = {a: bool(cuts.get(a, False)) for a in part}
        terminated = {
            a: bool(ends.get(a, False)) or (a not in present and not truncated[a]) for a in part
        }
        rewards = {a: float(rewards.get(a, 0.0)) for a in part}
        over = self._go_on(terminated, truncated)
        shown, infos = self._observed(obs, infos, part)
        return shown, rewards, *over, infos

    def _observed(
        self, obs: AgentDict, infos: AgentDict, agents: Iterable[Hashable]
    ) -> tuple[AgentDict, AgentDict]:
        """Return observations and infos of agents that are shown one, and ask these to act."""
        agents = [a for a in agents if a in obs]
        infos = {a: infos.get(a, {}) for a in agents}
        self._asked = [a for a in agents if a in self.agents]
        return {a: self._shown(a, obs[a], infos[a]) for a in agents}, infos


class PettingZooAEC(PettingZooAdapter):
    """An `AECEnv`: one agent acts in each step, and only that one is shown an observation.

    What a step pays is passed on in that step, to whomever it is paid. An agent ends, with its last
    observation, where PettingZoo selects it for its last time; the `None` that it has to be stepped
    with then is given here, so that each step is one of a living agent.

    Args:
        env: The `AECEnv`, wrapped or not.
    """

    def _first_infos(self) -> dict[Hashable, dict[str, Any]]:
        self.env.reset()
        return dict(self.env.infos)

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        self.env.reset(seed=seed, options=options)
        self._begin()
        obs: AgentDict = {}
        infos: AgentDict = {}
        self._show_selected(obs, infos)
        return obs, infos

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        self._check_actions(action_dict)
        agent = self.env.agent_selection
        self.env.step(action_dict[agent])
        # Of this step alone; `last` would give what piled up since an agent's own last step. The
        # steps of ended agents below pay nothing: they only remove them.
        rewards = {a: float(r) for a, r in self.env.rewards.items() if a not in self._ended}
        obs: AgentDict = {}
        infos: AgentDict = {}
        terminated: AgentDict = dict.fromkeys(rewards, False)
        truncated: AgentDict = dict.fromkeys(rewards, False)
        self._step_ended(obs, infos, terminated, truncated)
        for gone in set(self.agents) - set(self.env.agents):
            if not truncated.get(gone, False):
                terminated[gone] = True  # also if the game removed it without a word
                truncated.setdefault(gone, False)
        over = self._go_on(terminated, truncated)
        self._show_selected(obs, infos)
        return obs, rewards, *over, infos

    def _step_ended(
        self, obs: AgentDict, infos: AgentDict, terminated: AgentDict, truncated: AgentDict
    ) -> None:
        """Give ended agents that are selected their last observations, and have them removed."""
        while self.env.agents:
            agent = self.env.agent_selection
            if not (self.env.terminations[agent] or self.env.truncations[agent]):
                return
            last, _, is_terminated, is_truncated, info = self.env.last()
            obs[agent], infos[agent] = self._shown(agent, last, info), info
            terminated[agent], truncated[agent] = bool(is_terminated), bool(is_truncated)
            self.env.step(None)

    def _show_selected(self, obs: AgentDict, infos: AgentDict) -> None:
        """Show the selected agent what it is to act on, if the episode goes on."""
        self._asked = []
        if not self.agents:
            return
        agent = self.env.agent_selection
        if agent in self._ended:
            raise MultiAgentApiError(f"agent {agent!r} takes part again after its end")
        last, _, _, _, info = self.env.last()
        obs[agent], infos[agent] = self._shown(agent, last, info), info
        self._asked = [agent]

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if self.agents:  # a wrapper may remember the mask of another observation
            self.env.observe(self.env.agent_selection)


def wrap_pettingzoo(env: Any) -> MultiAgentEnv:
    """Return the adapter that fits an environment of PettingZoo.

    Args:
        env: A `ParallelEnv` or an `AECEnv`, within wrappers of PettingZoo or not.

    Raises:
        ConfigError: if it is neither.
    """
    if isinstance(env, MultiAgentEnv):
        return env
    try:
        from pettingzoo import AECEnv, ParallelEnv
    except ModuleNotFoundError as error:
        if error.name != "pettingzoo":
            raise
    else:
        if isinstance(env, ParallelEnv):
            return PettingZooParallel(env)
        if isinstance(env, AECEnv):
            return PettingZooAEC(env)
    raise ConfigError(
        f"an env of class {type(env).__name__} is none of PettingZoo's; allowed: ParallelEnv, "
        "AECEnv"
    )


def make_pettingzoo(name: str, env_config: dict[str, Any] | None = None) -> MultiAgentEnv:
    """Make a game of PettingZoo.

    Args:
        name: `pettingzoo:<family>.<game>_v<version>`, e.g. `pettingzoo:classic.tictactoe_v3` or
            `pettingzoo:mpe2.simple_spread_v3`; the part before the colon may be left out.
        env_config: Arguments of the game; `api` chooses `parallel` or `aec`. Without it, a game is
            parallel if it can be.

    Raises:
        ConfigError: if there is no such game, what it needs is not installed, or it cannot be made
            with these arguments.
    """
    module, arguments = game_module(name), dict(env_config or {})
    makers = {"parallel": "parallel_env", "aec": "env"}
    offered = [api for api, maker in makers.items() if hasattr(module, maker)]
    api = arguments.pop("api", next(iter(offered), None))
    if api not in offered:
        raise ConfigError(
            f"env {name!r}: api={api!r} in env_config is not offered by this game; allowed: "
            f"{' or '.join(offered)}"
        )
    try:
        made = getattr(module, makers[api])(**arguments)
    except ImportError as error:
        raise missing_dependency(name, error) from error
    except Exception as error:  # whatever a game's constructor raises is the user's to read
        raise ConfigError(
            f"env {name!r} cannot be made with env_config={dict(env_config or {})!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return wrap_pettingzoo(made)


def _possible_agents(env: Any) -> list[Hashable]:
    agents = list(getattr(env, "possible_agents", None) or [])
    if not agents:
        raise ConfigError(
            f"env {env} has no possible_agents: the ids of all agents that may ever take part"
        )
    return agents


def _has_mask(space: gym.Space) -> bool:
    return isinstance(space, spaces.Dict) and MASK in space.spaces


def _raw_with_state(env: Any) -> Any:
    """Return the environment below all wrappers; None if its state, or a wrapper's, is hidden."""
    raw, layer = env.unwrapped, env
    while layer is not raw:
        kind = type(layer)
        if kind.__name__ not in _FORGETFUL or not kind.__module__.startswith(_WRAPPERS):
            return None
        layer = layer.env
    offers = all(callable(getattr(raw, name, None)) for name in ("get_state", "set_state"))
    return raw if offers else None
