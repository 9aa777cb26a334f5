"""`AgentsRecorder`: what each agent sees and does becomes an episode of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainables.core.data.agents_episode import AgentsEpisode
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.offline.episode import DataSpaces, Episode

_MOST_BYTES = 8 * 2**20  # of an agent's rows that wait for its episode to end


@dataclass
class _Running:
    """What has not been given out yet of an agent's episode."""

    agent_id: str
    module_id: str
    episode_id: str
    first_step: int
    obs: list[np.ndarray] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


class AgentsRecorder:
    """Gives out an agent's episode when the agent has ended, long ones piece by piece.

    A row is an action of the agent; its reward is what the agent got until it acted next or ended,
    as in rollouts. Agents that took part in one episode share its id.

    Args:
        give: Takes an episode, and the spaces that it is of.
        name: What ids of episodes begin with: it tells those of several recordings apart.
        keeps_cut: Whether what happened before an environment failed is given out, too.
        most_bytes: Beyond so many bytes of observations a piece of an episode is given out.

    Attributes:
        num_steps: Steps of agents that were given out.
    """

    def __init__(
        self,
        give: Callable[[Episode, DataSpaces], None],
        name: str,
        *,
        keeps_cut: bool = False,
        most_bytes: int = _MOST_BYTES,
    ):
        self._give, self._name, self._keeps_cut = give, name, keeps_cut
        self._most_bytes = most_bytes
        self.num_steps = 0
        self._running: dict[tuple[int, int], _Running] = {}  # by group and row
        self._shown: AgentsStep | None = None

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        """Begin anew, after a reset of all slots; see `AgentsWatch.begin`."""
        self._groups, self._sizes = groups, [len(group.agents) for group in groups]
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
        """Take note of what agents do; see `AgentsWatch.act`."""
        for number, rows in enumerate(shown.groups):
            acting = np.flatnonzero(rows.acts & np.repeat(runs, self._sizes[number]))
            if not len(acting):
                continue
            obs = self._obs_layouts[number].rows(rows.obs)
            done = self._action_layouts[number].rows(actions[number])
            for row in acting.tolist():
                running = self._running.get((number, row))
                if running is None:
                    begins = bool(rows.begins[row])
                    running = self._begun(number, row, episodes, begins=begins)
                    self._running[number, row] = running
                elif len(running.obs) * obs[row].nbytes > self._most_bytes:
                    self._give_out(number, running, obs[row])
                running.obs.append(obs[row].copy())
                running.actions.append(done[row].copy())
                running.rewards.append(0.0)

    def _begun(
        self, number: int, row: int, episodes: Sequence[AgentsEpisode], *, begins: bool
    ) -> _Running:
        slot, index = divmod(row, self._sizes[number])
        agent, episode = self._groups[number].agents[index], episodes[slot]
        # Of one that a restored run goes on with the beginning is missing.
        first_step = 0 if begins else max(1, episode.length)
        episode_id = f"{self._name}-{episode.episode_id}"
        return _Running(str(agent), episode.policy_for(agent), episode_id, first_step)

    def step(self, step: AgentsStep, is_over: np.ndarray) -> None:
        """Take note of what that led to; see `AgentsWatch.step`."""
        self._shown = step
        for (number, row), running in [*self._running.items()]:
            slot, rows = row // self._sizes[number], step.groups[number]
            if step.resets[slot]:  # its environment was replaced
                if self._keeps_cut:
                    self._cut(number, running)
                del self._running[number, row]
                continue
            running.rewards[-1] += float(rows.rewards[row])
            terminated, truncated = bool(rows.terminated[row]), bool(rows.truncated[row])
            if terminated or truncated or is_over[slot]:
                last = self._obs_layouts[number].rows(rows.obs)[row]
                self._give_out(number, running, last, terminated, not terminated)
                del self._running[number, row]

    def cut(self) -> None:
        """Give out what has not ended: it will not go on."""
        for (number, row), running in self._running.items():
            assert self._shown is not None
            rows = self._shown.groups[number]
            if rows.acts[row]:
                last = self._obs_layouts[number].rows(rows.obs)[row]
                self._give_out(number, running, last)
            else:  # nobody has seen yet what the last action led to
                self._cut(number, running)
        self._running.clear()

    def _cut(self, number: int, running: _Running) -> None:
        """Give out all but the last action, of which is not known what it led to."""
        last = running.obs.pop()
        del running.actions[-1], running.rewards[-1]
        if running.obs:
            self._give_out(number, running, last)

    def _give_out(
        self,
        number: int,
        running: _Running,
        last: np.ndarray,
        terminated: bool = False,
        truncated: bool = False,
    ) -> None:
        episode = Episode(
            np.stack([*running.obs, last]),
            np.stack(running.actions),
            np.array(running.rewards, np.float32),
            terminated,
            truncated,
            episode_id=running.episode_id,
            first_step=running.first_step,
            module_id=running.module_id,
            agent_id=running.agent_id,
        )
        self._give(episode, self._spaces[number])
        self.num_steps += len(episode)
        running.first_step += len(episode)
        running.obs, running.actions, running.rewards = [], [], []
