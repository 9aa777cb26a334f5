"""Which recorded rows a policy learns from: those of the agents that it is mapped to."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import NoReturn

from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import all_policies
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.source import Source

ALONE = "agent0"
"""Whose rows are those that name no agent: what environments of one agent call theirs."""

_NO_NAMES = ("", "default_agent")


class NoRowsError(DataError):
    """Recorded data have no row of a policy's agents."""


class AgentRows:
    """The rows of some agents; see `Source`.

    Args:
        source: Has them, perhaps beside those of others.
        agents: The agents.
    """

    def __init__(self, source: Source, agents: Collection[str]):
        self._source, self._agents = source, frozenset(agents)
        self.name = f"{source.name}, rows of {', '.join(sorted(agents))}"
        self.files, self.options = source.files, source.options

    def digest(self) -> str:
        """Return a hexadecimal digest that changes with the contents, and with the agents."""
        told = f"{self._source.digest()} {sorted(self._agents)}"
        return hashlib.sha256(told.encode()).hexdigest()

    def spaces(self) -> DataSpaces | None:
        """Return the spaces that the files state; None if they state none."""
        return self._source.spaces()

    def infer_spaces(self) -> DataSpaces:
        """Return spaces that the data would fit, of files that state none."""
        return self._source.infer_spaces()

    def agents(self) -> list[set[str]]:
        """Return the agents whose rows each file has, of these."""
        return [{a for a in found if named(a) in self._agents} for found in self._source.agents()]

    def of_files(self, numbers: Collection[int]) -> AgentRows:
        """Return the rows in some of the files."""
        return AgentRows(self._source.of_files(numbers), self._agents)

    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        """Yield what is recorded of them, one episode at a time, in bounded memory."""
        for episode in self._source.episodes(spaces):
            if named(episode.agent_id) in self._agents:
                yield episode


def named(agent_id: str) -> str:
    """Return the agent that rows are of."""
    return ALONE if agent_id in _NO_NAMES else agent_id


def rows_of_policy(source: Source, config: AlgorithmConfig, module_id: str) -> Source:
    """Return what a policy learns from: the rows of its agents, from the files that have any.

    Files of other agents are not looked into, so that these may have other spaces.

    Args:
        source: Rows of all agents.
        config: Says which policies there are, and whom they act for.
        module_id: The policy.

    Raises:
        NoRowsError: if there are no rows of an agent of the policy.
        ConfigError: for an agent that has no policy, or a mapping that depends on the episode.
    """
    mapping = PolicyMapping(config.policy_mapping_fn, all_policies(config), config.seed)
    by_file = [{named(agent) for agent in found} for found in source.agents()]
    every = {agent for found in by_file for agent in found}
    own = {agent for agent in sorted(every) if mapping(agent, _Unknown()) == module_id}
    if not own:
        raise NoRowsError(
            f"{source.name}: no row is of an agent of the policy {module_id!r}; agents: "
            f"{', '.join(sorted(every)) or 'none'}; allowed: policy_mapping_fn gives it one of "
            "them, or policies_to_train leaves it out"
        )
    if own == every:
        return source
    of_its = [number for number, found in enumerate(by_file) if found & own]
    return AgentRows(source.of_files(of_its), own)


class _Unknown:
    """The episode that recorded rows are of, as mapping functions are given it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"of recorded rows no episode.{name} is known: they are their agent's, whose policy "
            "the agent's id alone must say (a dict by agents' ids does)"
        )
