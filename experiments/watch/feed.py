"""Looks at a sweep as long as a page is open, and hands every page what has changed."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path

from experiments.watch.updates import Message, Updates
from experiments.watch.watched_sweep import WatchedSweep

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0  # between two looks at the folder, at least
_SHARE = 0.05  # of a core that looking may take: of a very large sweep it looks less often
_BEAT_S = 15.0
_KEPT = 64  # messages, for pages that are slow; a slower one is told everything anew


class Feed:
    """Server-sent events about a sweep, for any number of pages.

    Args:
        sweep: The sweep; only this object reads it from now on.
    """

    def __init__(self, sweep: WatchedSweep) -> None:
        self._sweep, self._updates = sweep, Updates(sweep)
        self._changed = threading.Condition()
        self._messages: deque[bytes] = deque(maxlen=_KEPT)
        self._number = 0  # of the messages so far
        self._pages = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="watch-feed", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all events, and the looking."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def report(self) -> Path | None:
        """Return the report of a sweep that no longer runs, as the folder is now."""
        with self._changed:
            self._look()
            return self._sweep.report

    def events(self) -> Generator[bytes, None, None]:
        """Yield the events of one page: first all that is known, then each change."""
        with self._changed:
            self._pages += 1
            self._changed.notify_all()
        try:
            with self._changed:
                self._look()
                pending, seen = [_event("whole", self._updates.whole())], self._number
            while not self._is_closed:
                yield b"".join(pending) or b": nothing has changed\n\n"
                with self._changed:
                    self._wait_for_news(seen)
                    missed = self._number - seen
                    if missed > len(self._messages):
                        pending = [_event("whole", self._updates.whole())]
                    else:
                        pending = list(self._messages)[len(self._messages) - missed :]
                    seen = self._number
        finally:
            with self._changed:
                self._pages -= 1

    def _wait_for_news(self, seen: int) -> None:
        self._changed.wait_for(lambda: self._is_closed or self._number > seen, _BEAT_S)

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, pause)
                self._changed.wait_for(lambda: self._is_closed or self._pages > 0)
                if self._is_closed:
                    return
                began = time.thread_time()
                try:
                    self._look()
                except Exception:
                    logger.exception("%s: it could not be read", self._sweep.folder)
            pause = max(INTERVAL_S, (time.thread_time() - began) / _SHARE)

    def _look(self) -> None:
        self._sweep.look()
        message = self._updates.changes()
        if message:
            self._messages.append(_event("changes", message))
            self._number += 1
            self._changed.notify_all()


def _event(name: str, message: Message) -> bytes:
    return f"event: {name}\ndata: {json.dumps(message, allow_nan=False)}\n\n".encode()
