"""`ModuleWriters`: what each policy did is written apart from what others did."""

from __future__ import annotations

from collections.abc import Callable

from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.source import EpisodeWriter


class ModuleWriters:
    """Writes episodes, those of each policy by a writer of its own; see `EpisodeWriter`.

    Args:
        make_writer: Returns what writes the episodes of a policy, of its id and spaces.
        spaces: The spaces of the policies that act, by id; more may come later.
    """

    def __init__(
        self,
        make_writer: Callable[[str, DataSpaces], EpisodeWriter],
        spaces: dict[str, DataSpaces],
    ):
        self._make_writer, self._spaces = make_writer, spaces
        self._writers: dict[str, EpisodeWriter] = {}

    def write(self, episode: Episode) -> None:
        """Add an episode, or consecutive rows of one."""
        module_id = episode.module_id
        if module_id not in self._writers:
            self._writers[module_id] = self._make_writer(module_id, self._spaces[module_id])
        self._writers[module_id].write(episode)

    def close(self) -> None:
        """Finish all files."""
        for writer in self._writers.values():
            writer.close()
