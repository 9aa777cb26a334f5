"""Recorded experience in files of JSON lines, as RLlib writes and reads them.

A line is a batch: `{"type": "SampleBatch", "obs": [[…], …], "actions": […], …}`, a list a column,
plain or packed. Leaves of nested spaces are objects of lists for a Dict, lists of lists for a
Tuple, as RLlib has them without its preprocessors.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterator

from trainables.runtime.offline.broken_rows import Report, reported
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.digests import digest_of
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.file_set import FileSet
from trainables.runtime.offline.formats.infer_json import inferred_spaces
from trainables.runtime.offline.formats.json_file import Line, lines_of
from trainables.runtime.offline.formats.json_steps import LineReader, labels_of
from trainables.runtime.offline.formats.json_writer import JsonLinesWriter
from trainables.runtime.offline.formats.stated_spaces import check_same_spaces, spaces_beside
from trainables.runtime.offline.joining import EpisodeJoiner
from trainables.runtime.offline.read_options import ReadOptions

__all__ = ["JsonLinesSource", "JsonLinesWriter"]


class JsonLinesSource:
    """Files of JSON lines that are read together; see `Source`.

    Rows with the same `eps_id` that follow one another are an episode, also in several lines and
    files. Without `eps_id` an episode ends with its line at the latest.

    Args:
        files: The files.
        options: How values are taken.
    """

    def __init__(self, files: FileSet, options: ReadOptions | None = None):
        self._files, self.options = files, options or ReadOptions()
        self.name, self.files = files.name, list(files.files)
        self.report: Report | None = None

    def digest(self) -> str:
        """Return a hexadecimal digest that changes with the contents, and with nothing else."""
        return digest_of(self._files)

    def spaces(self) -> DataSpaces | None:
        """Return the spaces that the files' folders state; None if they state none."""
        first: tuple[DataSpaces, str] | None = None
        for name, stated in self._stated():
            if first is None:
                first = stated, name
            check_same_spaces(name, stated, *first)
        return None if first is None else first[0]

    def infer_spaces(self) -> DataSpaces:
        """Return spaces that the data would fit, of files that state none."""
        return inferred_spaces(self.name, self._lines())

    def agents(self) -> list[set[str]]:
        """Return the agents whose rows each file has: all lines are read for that."""
        found = []
        for _, lines in self._opened():
            labels = [labels_of(line, "agent_id") for line in lines]
            found.append({agent for of_line in labels for agent in of_line or [""]})
        return found

    def of_files(self, numbers: Collection[int]) -> JsonLinesSource:
        """Return what is recorded in some of the files."""
        return JsonLinesSource(self._files.part(numbers), self.options)

    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        """Yield what is recorded, one episode at a time, in bounded memory."""
        for name, stated in self._stated():
            check_same_spaces(name, stated, spaces, "the settings or the environment")
        joiner, has_ids = EpisodeJoiner(), False
        last: Place | None = None
        for name, lines in self._opened():
            reader, row, has_steps = LineReader(name, spaces, self.options), 0, False
            for line in lines:
                with reported(self.report):
                    yield from joiner.add(reader.read(line, row))
                row += line.num_rows
                last = line.at
                has_steps = "t" in line.columns
                if "episode_id" in line.columns:
                    has_ids = True
                else:
                    yield from joiner.finish()
            yield from joiner.end_file(has_steps=has_steps)
        if last is None:
            raise DataError(f"{self.name}: there are no rows in it; files: {self.files}")
        if not joiner.num_ends and not has_ids:
            raise last.of("terminateds").error(
                "no row up to this one ends an episode, and there is no column 'eps_id' that tells "
                "episodes apart; needed: one of them"
            )
        yield from joiner.finish()
        joiner.tell(self.name, "new_obs")

    def _opened(self) -> Iterator[tuple[str, Iterator[Line]]]:
        """Yield each file's name, and its lines."""
        for index, name in enumerate(self.files):
            with self._files.open(index) as opened:
                yield name, lines_of(opened, name, self.report)

    def _lines(self) -> Iterator[Line]:
        for _, lines in self._opened():
            yield from lines

    def _stated(self) -> Iterator[tuple[str, DataSpaces]]:
        """Yield the first file of each folder that states spaces, and these."""
        seen = set()
        for index, name in enumerate(self.files):
            folder = posixpath.dirname(self._files.path(index).replace(os.sep, "/"))
            if folder not in seen:
                seen.add(folder)
                stated = spaces_beside(self._files, index)
                if stated is not None:
                    yield name, stated
