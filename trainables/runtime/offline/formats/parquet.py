"""Recorded experience in Parquet files, a row a step: ours, and files with RLlib's column names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack

from trainables.runtime.offline.broken_rows import Report, reported
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.digests import digest_of
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.file_set import FileSet
from trainables.runtime.offline.formats.infer_parquet import inferred_spaces
from trainables.runtime.offline.formats.parquet_steps import ParquetSteps
from trainables.runtime.offline.formats.parquet_writer import ParquetWriter
from trainables.runtime.offline.formats.stated_spaces import check_same_spaces
from trainables.runtime.offline.joining import EpisodeJoiner
from trainables.runtime.offline.read_options import ReadOptions

__all__ = ["ParquetSource", "ParquetWriter"]


class ParquetSource:
    """Parquet files that are read together; see `Source`.

    Args:
        files: The files.
        options: How values are taken.
    """

    _steps: type[ParquetSteps] = ParquetSteps

    def __init__(self, files: FileSet, options: ReadOptions | None = None):
        self._files, self.options = files, options or ReadOptions()
        self.name, self.files = files.name, list(files.files)
        self.report: Report | None = None

    def digest(self) -> str:
        """Return a hexadecimal digest that changes with the contents, and with nothing else."""
        return digest_of(self._files)

    def spaces(self) -> DataSpaces | None:
        """Return the spaces that the files state; None if they state none."""
        first: tuple[DataSpaces, str] | None = None
        for file in self._opened():
            if file.spaces is None:
                continue
            if first is None:
                first = file.spaces, file.name
            check_same_spaces(file.name, file.spaces, *first)
        return None if first is None else first[0]

    def infer_spaces(self) -> DataSpaces:
        """Return spaces that the data would fit, of files that state none."""
        return inferred_spaces(self.name, self._opened())

    def agents(self) -> list[set[str]]:
        """Return the agents whose rows each file has."""
        return [file.agents() for file in self._opened()]

    def of_files(self, numbers: Collection[int]) -> ParquetSource:
        """Return what is recorded in some of the files."""
        return type(self)(self._files.part(numbers), self.options)

    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        """Yield what is recorded, one episode at a time, in bounded memory."""
        joiner, num_rows, has_ids = EpisodeJoiner(), 0, False
        for file in self._opened():
            has_ids |= "episode_id" in file.columns
            with reported(self.report):
                if file.spaces is not None:
                    whose = "the settings or the environment"
                    check_same_spaces(file.name, file.spaces, spaces, whose)
                for steps in file.steps(spaces, self.options, self.report):
                    yield from joiner.add(steps)
            num_rows += file.num_rows
            yield from joiner.end_file(has_steps=file.has_steps)
        if not num_rows:
            raise DataError(f"{self.name}: there are no rows in it; files: {self.files}")
        if not joiner.num_ends and not has_ids:
            raise Place(self.files[-1], num_rows - 1, "terminated").error(
                "no row up to this one ends an episode, and there is no column 'episode_id' or "
                "'eps_id' that tells episodes apart; needed: one of them"
            )
        yield from joiner.finish()
        joiner.tell(self.name, "next_obs")

    def _opened(self) -> Iterator[ParquetSteps]:
        for index, name in enumerate(self.files):
            steps = None
            with ExitStack() as stack:
                with reported(self.report):
                    opened = stack.enter_context(self._files.open(index))
                    steps = self._steps(opened, name, self.options.columns)
                if steps is not None:
                    yield steps
