"""`AgentLanes`: all agents of an environment, each at the hands of the policy it is mapped to."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector.utils import create_empty_array

from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import PolicySpec, all_policies
from trainables.core.data.batch import Rollout
from trainables.core.data.spaces import space_mismatch
from trainables.core.data.stored import like
from trainables.core.errors import ConfigError
from trainables.core.policy.fixed_policy import make_fixed_policy
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import env_name
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep, AgentsVectorEnv
from trainables.runtime.sampling.agents.episode_book import EpisodeBook
from trainables.runtime.sampling.agents.fixed_lanes import FixedLanes
from trainables.runtime.sampling.agents.lanes import Lanes
from trainables.runtime.sampling.agents.places import AgentPlace
from trainables.runtime.sampling.module_slots import module_seeds

_NOBODY = -1
_APART = "/"  # no policy's id has it
HasSpaces = Policy | PolicySpec


class AgentLanes:
    """Acts for all agents. Which policy acts for one is asked when it begins an episode.

    Args:
        config: The algorithm's config.
        policies: The policies with networks, by module id. Those written by hand are made here, as
            the setting `policies` has them.
        env: The slots.
        who: What steps them, for messages.

    Attributes:
        recorded: The lanes of the policies with networks, by module id.
        fixed: Those of the policies written by hand.
        num_agent_steps: Actions of agents since `begin`.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: Mapping[str, Policy],
        env: AgentsVectorEnv,
        who: str,
    ):
        self._config, self._env, self._who = config, env, who
        self.recorded: dict[str, Lanes] = {}
        self.fixed: dict[str, FixedLanes] = {}
        self._all: dict[str, Lanes | FixedLanes] = {}
        self.num_agent_steps = 0
        specs = all_policies(config)
        self._policy_ids = list(specs)
        self._mapping = PolicyMapping(config.policy_mapping_fn, self._policy_ids, config.seed)
        for module_id, spec in specs.items():
            self._add(module_id, None if spec.is_fixed else policies[module_id])
        self._retired: set[str] = set()  # policies that are no more, and act until episodes end
        sizes = [env.num_envs * len(group.agents) for group in env.groups]
        # The place of each agent's policy among all, by group, `[R]`.
        self._owners = [np.full(size, _NOBODY) for size in sizes]
        self._actions = [
            create_empty_array(group.action_space, size, np.zeros)
            for group, size in zip(env.groups, sizes, strict=True)
        ]

    def _add(self, module_id: str, policy: Policy | None) -> Lanes | FixedLanes:
        """Make the lanes of a policy with networks, or of one written by hand."""
        lanes: Lanes | FixedLanes
        if policy is None:
            lanes = self.fixed[module_id] = self._fixed_lanes(module_id)
        else:
            lanes = self.recorded[module_id] = self._lanes_of(module_id, policy)
        self._all[module_id] = lanes
        return lanes

    def _drop(self, module_id: str) -> None:
        self._retired.discard(module_id)
        for lanes in (self._all, self.recorded, self.fixed):
            lanes.pop(module_id, None)

    def change(self, config: AlgorithmConfig, policies: Mapping[str, Policy]) -> None:
        """Map agents that begin an episode from here on to other policies.

        Args:
            config: The algorithm's config, which names them.
            policies: Those of them that have networks, by module id.
        """
        self._config = config
        specs = all_policies(config)
        self._mapping = PolicyMapping(config.policy_mapping_fn, list(specs), config.seed)
        for module_id, spec in specs.items():
            if module_id in self._all and module_id not in self._retired:
                continue
            if module_id in self._policy_ids:
                self._set_apart(module_id)
            self._policy_ids.append(module_id)
            lanes = self._add(module_id, None if spec.is_fixed else policies[module_id])
            key = (*self._seed.spawn_key, zlib.crc32(module_id.encode()))
            seed = np.random.SeedSequence(self._seed.entropy, spawn_key=key)
            lanes.reset(np.empty(0, np.int64), seed)
            lanes.show(self._shown.groups[lanes.group])
        self._retired = {module_id for module_id in self._all if module_id not in specs}
        self._drop_idle()

    def _set_apart(self, module_id: str) -> None:
        """Let a policy that is no more have another id, for its own is that of a new one."""
        place = self._policy_ids.index(module_id)
        apart = self._policy_ids[place] = f"{module_id}{_APART}{place}"
        kept: tuple[dict[str, Any], ...] = (self._all, self.recorded, self.fixed)
        for lanes in kept:
            if module_id in lanes:
                lanes[apart] = lanes.pop(module_id)

    def _drop_idle(self) -> None:
        """Forget policies that are no more, once no agent is left to them."""
        for module_id in [m for m in self._retired if self._all[m].is_idle]:
            self._drop(module_id)

    def _lanes_of(self, module_id: str, policy: Policy) -> Lanes:
        config, env = self._config, self._env
        group = group_of(env.groups, module_id, policy, config)
        agents = env.groups[group].agents
        place = AgentPlace(config.env, self._who, agents)
        seed = np.random.SeedSequence(0)  # `reset` gives another
        own = config.module_config(module_id)
        return Lanes(own, policy, group, len(agents), env.num_envs, place, seed)

    def _fixed_lanes(self, policy_id: str) -> FixedLanes:
        config, env = self._config, self._env
        specs, _ = config.get_multi_agent_setup(env=env)
        policy = make_fixed_policy(policy_id, specs[policy_id])
        group = group_of(env.groups, policy_id, specs[policy_id], config)
        its = env.groups[group]
        num_rows = env.num_envs * len(its.agents)
        return FixedLanes(
            policy, policy_id, its.action_space, its.agents, group, num_rows, config.action_mask_key
        )

    # ------------------------------------------------------------------ steps

    def reset(self, first: AgentsStep, book: EpisodeBook, seed: np.random.SeedSequence) -> None:
        """Begin anew, after a reset of all slots, on a random stream.

        Args:
            first: What the reset gave.
            book: The episodes that begin.
            seed: The seed of exploration.
        """
        for owners in self._owners:
            owners[:] = _NOBODY
        self._map(first, book)
        self._seed = seed
        for module_id in [*self._retired]:  # nobody acts for long
            self._drop(module_id)
        seeds = module_seeds(self._policy_ids, seed)
        for index, module_id in enumerate(self._policy_ids):
            if module_id not in self._all:
                continue
            lanes = self._all[module_id]
            rows = np.flatnonzero(self._owners[lanes.group] == index)
            lanes.reset(rows, seeds[module_id])
            lanes.show(first.groups[lanes.group])
        self._note(first)

    def begin(self, num_steps: int) -> None:
        """Begin with the columns of so many steps."""
        self.num_agent_steps = 0
        for lanes in self.recorded.values():
            lanes.begin(num_steps)

    def act(self) -> list[Any]:
        """Return actions for the environment, a batch `[R, …]` for each group."""
        actions = list(self._actions)
        for lanes in self._all.values():
            actions[lanes.group] = lanes.act(actions[lanes.group])
        self.num_agent_steps += self._num_asked
        return actions

    def observe(self, step: AgentsStep, book: EpisodeBook, num_steps_left: int) -> None:
        """Take note of what a step of the environment has shown.

        Args:
            step: What it has shown.
            book: The episodes, which have counted the step.
            num_steps_left: Steps that are still to come in this sample.
        """
        moves = self._map(step, book)
        for module_id, lanes in self._all.items():
            if module_id in moves:
                taken, left = moves[module_id]
                lanes.leave_lanes(left)
                if len(taken):
                    if isinstance(lanes, Lanes):
                        lanes.begin_late(num_steps_left + 1)
                    lanes.take_lanes(taken)
            lanes.observe(step)
        self._note(step)

    def _note(self, step: AgentsStep) -> None:
        self._shown = step
        self._num_asked = 0
        for rows in step.groups:
            self._num_asked += int(np.count_nonzero(rows.acts))

    def _map(self, step: AgentsStep, book: EpisodeBook) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Ask for the policies of agents that begin; return who comes to, and leaves, a policy.

        Returns:
            By policy id the rows of agents that come, and of those that leave.
        """
        moves: dict[str, tuple[list[int], list[int]]] = {}
        for number, (group, rows) in enumerate(zip(self._env.groups, step.groups, strict=True)):
            if not np.count_nonzero(rows.begins):
                continue
            for row in np.flatnonzero(rows.begins).tolist():
                slot, index = divmod(row, len(group.agents))
                agent, episode = group.agents[index], book.episodes[slot]
                policy_id = self._mapping(agent, episode, episode.worker)
                if self._all[policy_id].group != number:
                    raise self._other_spaces(policy_id, agent, group)
                episode.policy_of[agent] = policy_id
                before, now = self._owners[number][row], self._policy_ids.index(policy_id)
                if before == now:
                    continue
                moves.setdefault(policy_id, ([], []))[0].append(row)
                if before != _NOBODY:
                    moves.setdefault(self._policy_ids[before], ([], []))[1].append(row)
                self._owners[number][row] = now
        return {
            policy_id: (np.array(taken, np.int64), np.array(left, np.int64))
            for policy_id, (taken, left) in moves.items()
        }

    def _other_spaces(self, policy_id: str, agent: Any, group: AgentGroup) -> ConfigError:
        own = self._env.groups[self._all[policy_id].group]
        return ConfigError(
            f"env {env_name(self._config.env)!r}: the agent {agent!r} sees "
            f"{group.observation_space} and does {group.action_space}, but the policy "
            f"{policy_id!r} is for {own.observation_space} and {own.action_space}; allowed: a "
            "policy acts for agents with equal spaces (change policy_mapping_fn)"
        )

    # ------------------------------------------------------------------ rollouts and state

    def end(self, weights_version: int, follows: bool) -> dict[str, Rollout]:
        """Return what was sampled, by id of the modules that have a row."""
        rollouts = {m: lanes.end(weights_version, follows) for m, lanes in self.recorded.items()}
        self._drop_idle()
        return {m: r for m, r in rollouts.items() if r is not None and _APART not in m}

    def get_state(self) -> dict[str, Any]:
        """Return a copy of what goes on with the next sample."""
        return {
            "modules": {m: lanes.get_state() for m, lanes in self._all.items()},
            "owners": [owners.copy() for owners in self._owners],
            "policy_ids": list(self._policy_ids),
            "num_asked": self._num_asked,
        }

    def fits(self, state: dict[str, Any]) -> bool:
        """Tell whether `set_state` can go on where a state was made."""
        modules = state["modules"]
        if set(modules) != set(self._all):
            return False
        if any(
            len(own) != len(kept) for own, kept in zip(self._owners, state["owners"], strict=True)
        ):
            return False
        return all(lanes.fits(modules[m]) for m, lanes in self.recorded.items())

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s, which fits, after a reset."""
        for module_id, lanes in self._all.items():
            lanes.set_state(state["modules"][module_id])
        own = [
            self._policy_ids.index(m) if m in self._all else _NOBODY for m in state["policy_ids"]
        ]
        self._num_asked = int(state["num_asked"])
        places = np.array([*own, _NOBODY])  # the last one is that of nobody, who is -1
        pairs = zip(self._owners, state["owners"], strict=True)
        self._owners = [places[like(owners, kept, "owners")] for owners, kept in pairs]


def mismatch(own: tuple[Any, Any], theirs: tuple[Any, Any]) -> str | None:
    """Return in what a policy's observation or action space differs from agents'; None: nothing."""
    pairs = zip(own, theirs, strict=True)
    return next(filter(None, (space_mismatch(mine, other) for mine, other in pairs)), None)


def group_of(
    groups: tuple[AgentGroup, ...], module_id: str, policy: HasSpaces, config: AlgorithmConfig
) -> int:
    """Return the number of the group of agents that a policy fits.

    Raises:
        ConfigError: if it fits none.
    """
    problems = []
    for number, group in enumerate(groups):
        own = (policy.observation_space, policy.action_space)
        theirs = (group.observation_space, group.action_space)
        problem = mismatch(own, theirs)
        if problem is None:
            return number
        problems.append(f"{', '.join(map(str, group.agents[:4]))}: {problem}")
    raise ConfigError(
        f"policies: the spaces of {module_id!r}, {policy.observation_space} and "
        f"{policy.action_space}, fit no agent of env {env_name(config.env)!r} "
        f"({'; '.join(problems)})"
    )
