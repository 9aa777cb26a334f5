"""`AgentsRecorder`: writes what each agent sees and does as an episode of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainables.core.data.agents_episode import AgentsEpisode
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.source import EpisodeWriter

_MOST_BYTES = 8 * 2**20  # of an agent's rows that wait for its episode to end


@dataclass
class _Running:
    """What has not been written yet of an agent's episode."""

    agent_id: str
    module_id: str
    episode_id: str
    first_step: int = 0
    obs: list[np.ndarray] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


class AgentsRecorder(AgentsWatch):
    """Writes an agent's episode when the agent has ended, long ones piece by piece.

    A row is an action of the agent; its reward is what the agent got until it acted next or ended,
    as in training. Agents that took part in one episode share its id.

    Args:
        make_writer: Returns what writes the rows of a policy, of its id and spaces.
        name: What ids of episodes begin with: it tells those of several recordings apart.
        most_bytes: Beyond so many bytes of observations a piece of an episode is written.

    Attributes:
        num_steps: Steps of agents that were written.
    """

    def __init__(
        self,
        make_writer: Callable[[str, DataSpaces], EpisodeWriter],
        name: str,
        *,
        most_bytes: int = _MOST_BYTES,
    ):
        self._make_writer, self._name, self._most_bytes = make_writer, name, most_bytes
        self._writers: dict[str, EpisodeWriter] = {}
        self._first = self._num_slots = self.num_steps = 0
        self._running: dict[tuple[int, int], _Running] = {}  # by group and row

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        self._first += self._num_slots
        self._num_slots = len(seeds)
        self._sizes = [len(group.agents) for group in groups]
        self._agents = [[str(agent) for agent in group.agents] for group in groups]
        self._groups = groups
        self._spaces = [DataSpaces(g.observation_space, g.action_space) for g in groups]
        self._obs_layouts = [spaces.obs_layout for spaces in self._spaces]
        self._action_layouts = [spaces.action_layout for spaces in self._spaces]
        self._running.clear()

    def act(
        self,
        shown: AgentsStep,
        actions: list[Any],
        episodes: Sequence[AgentsEpisode],
        runs: np.ndarray,
    ) -> None:
        for number, rows in enumerate(shown.groups):
            acting = np.flatnonzero(rows.acts & np.repeat(runs, self._sizes[number]))
            if not len(acting):
                continue
            obs = self._obs_layouts[number].rows(rows.obs)
            done = self._action_layouts[number].rows(actions[number])
            for row in acting.tolist():
                running = self._running.get((number, row))
                if running is None:
                    running = self._running[number, row] = self._begun(number, row, episodes)
                elif len(running.obs) * obs[row].nbytes > self._most_bytes:
                    self._write(number, running, obs[row], False, False)
                running.obs.append(obs[row].copy())
                running.actions.append(done[row].copy())
                running.rewards.append(0.0)

    def _begun(self, number: int, row: int, episodes: Sequence[AgentsEpisode]) -> _Running:
        slot, index = divmod(row, self._sizes[number])
        module_id = episodes[slot].policy_for(self._groups[number].agents[index])
        episode_id = f"{self._name}-{self._first + slot}"
        return _Running(self._agents[number][index], module_id, episode_id)

    def step(self, step: AgentsStep, is_over: np.ndarray) -> None:
        for (number, row), running in [*self._running.items()]:
            slot, rows = row // self._sizes[number], step.groups[number]
            if step.resets[slot]:  # its environment was replaced: the episode counts nowhere
                del self._running[number, row]
                continue
            running.rewards[-1] += float(rows.rewards[row])
            terminated, truncated = bool(rows.terminated[row]), bool(rows.truncated[row])
            if terminated or truncated or is_over[slot]:
                last = self._obs_layouts[number].rows(rows.obs)[row]
                self._write(number, running, last, terminated, not terminated)
                del self._running[number, row]

    def _write(
        self, number: int, running: _Running, last: np.ndarray, terminated: bool, truncated: bool
    ) -> None:
        module_id = running.module_id
        if module_id not in self._writers:
            self._writers[module_id] = self._make_writer(module_id, self._spaces[number])
        self._writers[module_id].write(
            Episode(
                np.stack([*running.obs, last]),
                np.stack(running.actions),
                np.array(running.rewards, np.float32),
                terminated,
                truncated,
                episode_id=running.episode_id,
                first_step=running.first_step,
                module_id=module_id,
                agent_id=running.agent_id,
            )
        )
        self.num_steps += len(running.rewards)
        running.first_step += len(running.rewards)
        running.obs, running.actions, running.rewards = [], [], []

    def close(self) -> None:
        """Finish all files."""
        for writer in self._writers.values():
            writer.close()
