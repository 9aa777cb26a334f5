"""`AgentModules`: how many agents each module has to act for, before any episode has begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import all_policies
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup
from trainables.runtime.sampling.module_slots import ModuleSlots


class AgentModules(ModuleSlots):
    """The modules of an environment with several agents, which are mapped to agents, not slots.

    Args:
        module_ids: The ids of the modules with networks.
        groups: The groups of agents.
    """

    def __init__(self, module_ids: Sequence[str], groups: Sequence[AgentGroup]):
        super().__init__(module_ids, None)
        self._agents = [agent for group in groups for agent in group.agents]

    def of(self, worker_index: int, num_slots: int, first: int = 0) -> dict[str, np.ndarray]:
        """Return nothing: no module has slots."""
        return {}

    def num_slots(self, config: AlgorithmConfig, module_id: str) -> int:
        """Return how many agents of all slots a module has if all begin the first episodes.

        It is what a replay buffer has room for side by side; there may be more or fewer. Of a
        module that has none it is as many as all have of one that has the fewest. With line-ups,
        which change, it is that of all agents.
        """
        if isinstance(config.policy_mapping_fn, list):
            return config.num_slots * len(self._agents)
        counts = self._counts(config)
        return counts[module_id] or min(counts.values(), default=1)

    def _counts(self, config: AlgorithmConfig) -> Counter[str]:
        policies = all_policies(config)
        mapping = PolicyMapping(config.policy_mapping_fn, policies, config.seed)
        counts: Counter[str] = Counter()
        for number in range(config.num_slots):
            episode = AgentsEpisode(number, number % config.num_envs_per_env_runner)
            counts.update(mapping(agent, episode) for agent in self._agents)
        return counts

    def check(self, config: AlgorithmConfig) -> None:
        """See nothing: who begins an episode, only the episode says."""

    def check_each_runner(self, config: AlgorithmConfig, module_ids: Iterable[str]) -> None:
        """See nothing, see `check`."""
