"""`WriteThread`: rows are written behind the back of who samples them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

from trainables.core.errors import ConfigError
from trainables.runtime.offline.episode import DataError, Episode
from trainables.runtime.offline.source import EpisodeWriter

_MOST_WAITING = 4  # pieces of work; whoever brings more waits

Work = Callable[[], Iterable[Episode]]
"""Makes the episodes that are to be written: it is called in the thread."""


class WriteThread:
    """Writes episodes in a thread of its own, in the order in which they come.

    Args:
        make_writer: Makes the writer of the next files.
        place: Where they go, for messages.
    """

    def __init__(self, make_writer: Callable[[], EpisodeWriter], place: str):
        self._make_writer, self._place = make_writer, place
        self._writer: EpisodeWriter | None = None
        self._work: queue.Queue[Work | threading.Event | None] = queue.Queue(_MOST_WAITING)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._is_closed = False
        self._thread.start()

    def put(self, work: Work) -> None:
        """Have episodes written; wait if much is waiting already.

        Raises:
            DataError: if something before could not be written.
        """
        self._check()
        self._work.put(work)

    def flush(self) -> None:
        """Wait until all that was put is in whole files.

        Raises:
            DataError: if something could not be written.
        """
        done = threading.Event()
        self._work.put(done)
        done.wait()
        self._check()

    def close(self) -> None:
        """Write all that was put, and end. What comes after is refused.

        Raises:
            DataError: if something could not be written.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.flush()
        finally:
            self._work.put(None)
            self._thread.join()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                self._do(work)
            except Exception as error:  # in the thread of who samples it is raised
                self._error = self._told(error)
                self._writer = None
            if isinstance(work, threading.Event):
                work.set()

    def _do(self, work: Any) -> None:
        if self._error is not None:
            return  # nothing after a gap
        if isinstance(work, threading.Event):
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            return
        for episode in work():
            if self._writer is None:
                self._writer = self._make_writer()
            self._writer.write(episode)

    def _told(self, error: Exception) -> Exception:
        """Return what is raised of what went wrong: one error that names the place."""
        if isinstance(error, ConfigError):
            return error
        told = DataError(f"output: {self._place} cannot be written: {error}")
        told.__cause__ = error
        return told
