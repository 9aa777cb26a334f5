"""`ObservationFn`: an environment whose agents see what `observation_fn` makes of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.vector.utils import create_empty_array

from trainables.core.callables import callable_name, resolve_function
from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import all_policies
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.runtime.envs.multi_agent.forms import (
    MultiAgentApiError,
    checked_reset,
    checked_step,
)
from trainables.runtime.envs.multi_agent.multi_agent_env import (
    AgentDict,
    MultiAgentEnv,
    MultiAgentWrapper,
)
from trainables.runtime.envs.multi_agent.space_rows import RowError, Write, row_writer

_OBS = "agent_obs"
_ALLOWED = "a function (agent_obs, worker, base_env, …) -> dict by agent, or 'module:name' of one"
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


class ObservationFn(MultiAgentWrapper):
    """Applies a function to what an environment shows, before policies see it.

    The function is called with the observations of a reset or step as a dict by agent,
    `agent_obs`, and, as far as it takes them, with

    - `base_env`: the environment of the slot itself, which has no other slots;
    - `worker`, `policies` and `episode`: None. Environments are apart from what samples them.

    It returns a dict of the same agents. It is not called where nobody is observed.

    Args:
        env: The environment.
        function: See above.
        spaces: The spaces of what agents see then, by agent; of the others it stays the same.

    Attributes:
        env: The environment.
    """

    def __init__(
        self,
        env: MultiAgentEnv,
        function: Callable[..., Any],
        spaces: Mapping[Hashable, gym.Space],
    ):
        super().__init__(env)
        self._name = callable_name(function)
        self._function = _taking(function, env)
        self.observation_spaces = {
            agent: spaces.get(agent) or env.get_observation_space(agent)
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: env.get_action_space(agent) for agent in self.possible_agents}
        # Of agents that were not observed yet: afterwards all have the form of the first one.
        self._unchecked: dict[Hashable, Write] = {
            agent: row_writer(
                space, create_empty_array(space, 1), f"the observation of agent {agent!r}"
            )
            for agent, space in self.observation_spaces.items()
        }

    def reset(  # type: ignore[override]  # dicts by agent, whose ids need be no strings
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        obs, infos = checked_reset(self.env.reset(seed=seed, options=options))
        self.agents = list(self.env.agents)
        return self._applied(obs), infos

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        step = checked_step(self.env.step(action_dict))
        self.agents = list(self.env.agents)
        obs = self._applied(step.obs)
        return obs, step.rewards, step.terminateds, step.truncateds, step.infos

    def _applied(self, obs: AgentDict) -> AgentDict:
        """Return what the function makes of observations.

        Raises:
            MultiAgentApiError: if it raises, or returns something else than it should.
        """
        if not obs:
            return obs
        try:
            found = self._function(dict(obs))
        except Exception as error:  # whatever a user's code raises is theirs to read
            raise self._fault(f"raised {type(error).__name__}: {error}") from error
        if not isinstance(found, dict):
            raise self._fault(f"returned a {type(found).__name__}, not a dict by agent")
        if found.keys() != obs.keys():
            raise self._fault(
                f"returned observations of the agents {list(found)}; allowed: exactly those that "
                f"the environment observed, {list(obs)}"
            )
        for agent in found.keys() & self._unchecked.keys():
            self._check(agent, found[agent])
        return found

    def _check(self, agent: Hashable, value: Any) -> None:
        """Check the first observation of an agent."""
        try:
            self._unchecked.pop(agent)(0, value)
        except RowError as error:
            raise self._fault(
                f"returned another observation than the agent's space has: {error}; give the space "
                "of what it returns as observation_space of the PolicySpec of the agent's policy"
            ) from None

    def _fault(self, text: str) -> MultiAgentApiError:
        return MultiAgentApiError(f"observation_fn = {self._name} {text}")


def observation_wrapper(
    config: AlgorithmConfig,
) -> Callable[[MultiAgentEnv], ObservationFn] | None:
    """Return what puts the setting `observation_fn` around an environment; None without one.

    The new observation space of an agent is that of its policy's spec, if this gives one. Which
    policy that is, is asked as if a first episode began.

    Args:
        config: The algorithm's config.

    Raises:
        ConfigError: if there is no such function.
    """
    given = config.observation_fn
    if given is None:
        return None
    function = resolve_function("observation_fn", given, _ALLOWED)
    specs = all_policies(config)
    own = {m: spec.observation_space for m, spec in specs.items()}
    mapping = PolicyMapping(config.policy_mapping_fn, specs, config.seed)

    def wrap(env: MultiAgentEnv) -> ObservationFn:
        spaces: dict[Hashable, gym.Space] = {}
        if any(space is not None for space in own.values()):
            for agent in env.possible_agents or env.agents:
                space = own[mapping(agent, AgentsEpisode(0, 0))]
                if space is not None:
                    spaces[agent] = space
        return ObservationFn(env, function, spaces)

    return wrap


def _taking(function: Callable[..., Any], env: MultiAgentEnv) -> Callable[[AgentDict], Any]:
    """Return a function of observations alone, which gives another one as much as it takes."""
    more = {"worker": None, "base_env": env, "policies": None, "episode": None}
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of a built-in
        return function
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    by_name = _OBS in names or not positional
    if not by_name:
        names.discard(positional[0].name)
        more.pop(positional[0].name, None)
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        more = {name: value for name, value in more.items() if name in names}
    if by_name:
        return lambda obs: function(**{_OBS: obs}, **more)
    return lambda obs: function(obs, **more)
