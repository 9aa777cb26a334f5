"""`Source` and `EpisodeWriter`: what a format of recorded experience offers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from typing import Protocol

from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.read_options import ReadOptions


class Source(Protocol):
    """Recorded experience that is read together, of one format.

    Attributes:
        name: As the user wrote it, for messages.
        files: The files, in the order that they are read in.
        options: How values are taken: what is made of the data depends on it, too.
    """

    name: str
    files: list[str]
    options: ReadOptions

    @abstractmethod
    def digest(self) -> str:
        """Return a hexadecimal digest that changes with the contents, and with nothing else."""

    @abstractmethod
    def spaces(self) -> DataSpaces | None:
        """Return the spaces that the files state; None if they state none.

        Raises:
            DataError: naming two files that state different ones.
        """

    @abstractmethod
    def infer_spaces(self) -> DataSpaces:
        """Return spaces that the data would fit, of files that state none.

        Raises:
            DataError: if that cannot be told, e.g. the bounds of continuous actions.
        """

    @abstractmethod
    def agents(self) -> list[set[str]]:
        """Return the agents whose rows each of the files has; "" stands for rows that name none.

        Raises:
            DataError: naming the file that cannot be read.
        """

    @abstractmethod
    def of_files(self, numbers: Collection[int]) -> Source:
        """Return what is recorded in some of the files, by their numbers in `files`."""

    @abstractmethod
    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        """Yield what is recorded, one episode at a time, in bounded memory.

        Args:
            spaces: What observations and actions must be of.

        Raises:
            DataError: naming file, row and column of what does not fit.
        """


class EpisodeWriter(Protocol):
    """Writes recorded experience: whole files, or none."""

    @abstractmethod
    def write(self, episode: Episode) -> None:
        """Add an episode, or consecutive rows of one. A file is begun anew when it is full."""

    @abstractmethod
    def close(self) -> None:
        """Finish the last file. A writer that is killed before leaves whole files only."""
