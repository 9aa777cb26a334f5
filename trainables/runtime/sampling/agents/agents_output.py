"""`AgentsOutput`: what agents do while they are sampled goes to files, policy by policy."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.module_writers import ModuleWriters
from trainables.runtime.offline.output import OutputPlan, file_writer
from trainables.runtime.offline.source import EpisodeWriter
from trainables.runtime.offline.write_thread import WriteThread
from trainables.runtime.sampling.agents.agents_recorder import AgentsRecorder

_ROWS_AT_ONCE = 4096  # that are gathered before a thread writes them


class AgentsOutput:
    """Records what agents do in all slots of an env runner, until it is closed.

    Args:
        config: The algorithm's config.
        plan: Where to: each policy has a folder in it.
        groups: The groups of agents.
        worker_index: Of the env runner.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        plan: OutputPlan,
        groups: Sequence[AgentGroup],
        worker_index: int,
    ):
        self._config, self._plan = config, plan
        self._name = f"{plan.trial}-worker{worker_index}-{uuid.uuid4().hex[:8]}"
        self._spaces: dict[str, DataSpaces] = {}
        self._waiting: list[Episode] = []
        self._num_rows = 0
        self._recorder = AgentsRecorder(self._take, self._name, keeps_cut=True)
        self._recorder.begin(groups, ())
        self._thread = WriteThread(
            lambda: ModuleWriters(self._writer_of, self._spaces), f"{plan.folder}/{self._name}"
        )

    def act(self, shown: AgentsStep, actions: list[Any], episodes: Sequence[AgentsEpisode]) -> None:
        """Keep what agents do; see `AgentsRecorder.act`."""
        self._recorder.act(shown, actions, episodes, np.ones(len(episodes), bool))

    def step(self, step: AgentsStep) -> None:
        """Keep what that led to.

        Raises:
            DataError: if something before could not be written.
        """
        self._recorder.step(step, step.is_over)
        if self._num_rows >= _ROWS_AT_ONCE:
            self._hand_over()

    def flush(self) -> None:
        """Have the episodes that have ended in whole files; those that run stay in memory.

        Raises:
            DataError: if something could not be written.
        """
        self._hand_over()
        self._thread.flush()

    def cut(self) -> None:
        """Take running episodes as they are: they do not go on."""
        self._recorder.cut()

    def close(self) -> None:
        """Write all that there is, and end.

        Raises:
            DataError: if something could not be written.
        """
        try:
            self._recorder.cut()
            self._hand_over()
        finally:
            self._thread.close()

    def _take(self, episode: Episode, spaces: DataSpaces) -> None:
        self._spaces[episode.module_id] = spaces
        self._waiting.append(episode)
        self._num_rows += len(episode)

    def _hand_over(self) -> None:
        waiting, self._waiting, self._num_rows = self._waiting, [], 0
        if waiting:
            self._thread.put(lambda: waiting)

    def _writer_of(self, module_id: str, spaces: DataSpaces) -> EpisodeWriter:
        folder = f"{self._plan.folder}/{module_id}"
        return file_writer(self._config, folder, self._name, spaces, self._plan.env_id)
