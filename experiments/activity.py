"""What a command is doing while there is nothing else to show: on a terminal a line that goes away.

Reading a spec, starting Ray and starting trials take seconds each, on a busy machine many. Whoever
begins with one calls `doing`; it is shown while `shown_activity` lasts, and nowhere else.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from experiments.terminal import say

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_REFRESH_S = 0.2
_NOT_DRAWN = (Exception, SystemExit)  # rich exits if its output is a closed pipe

_shown: _Activity | None = None


@contextmanager
def shown_activity(console: Console) -> Iterator[None]:
    """Show what `doing` says on a console; within itself it is the outer one that counts.

    A terminal gets a single line, which disappears; anything else a line for each activity.
    """
    global _shown
    if _shown is not None:
        yield
        return
    _shown = activity = _Activity(console)
    try:
        yield
    finally:
        _shown = None
        activity.close()


def doing(what: str) -> None:
    """Say what begins now: "starting Ray"."""
    if _shown is not None:
        _shown.begin(what)


def nothing_to_tell() -> None:
    """Take the line away: something else is shown from now on."""
    if _shown is not None:
        _shown.close()


def activity_console() -> Console | None:
    """Return the console on which the activity is shown; what others print belongs on it, too."""
    return _shown.console if _shown is not None else None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let nothing be drawn meanwhile: a process that is forked must not find the console locked."""
    if _shown is None:
        yield
        return
    with _shown.lock:
        yield


class _Activity:
    def __init__(self, console: Console) -> None:
        self.console = console
        self.lock = threading.RLock()  # held while something is drawn
        self._what = ""
        self._start = time.monotonic()
        self._live: Live | None = None
        self._ended = threading.Event()

    def begin(self, what: str) -> None:
        with self.lock, suppress(*_NOT_DRAWN):
            if what == self._what:
                return
            self._what = what
            if not self.console.is_terminal or self.console.is_dumb_terminal:
                text = f"{what[:1].upper()}{what[1:]} …"
                say(self.console, text)
            elif self._live is None:
                self._start_line()
            else:
                self._live.refresh()

    def close(self) -> None:
        with self.lock:
            self._what = ""
            live, self._live = self._live, None
            self._ended.set()
            if live is not None:
                with suppress(*_NOT_DRAWN):
                    live.stop()

    def _start_line(self) -> None:
        import sys

        from rich.live import Live

        self._ended = threading.Event()
        self._live = Live(
            console=self.console,
            get_renderable=self._line,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # else it goes to a file, and should
        )
        self._live.start(refresh=True)
        ticker = threading.Thread(
            target=self._tick, args=(self._ended,), name="activity", daemon=True
        )
        ticker.start()

    def _tick(self, ended: threading.Event) -> None:
        """Show that it goes on, until it ends. Its own thread: the main one imports and waits."""
        if hasattr(signal, "pthread_sigmask"):  # they are the main thread's
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not ended.wait(_REFRESH_S):
            with self.lock, suppress(*_NOT_DRAWN):
                if self._live is not None and not ended.is_set():
                    self._live.refresh()

    def _line(self) -> RenderableType:
        from rich.text import Text

        seconds = time.monotonic() - self._start
        dots = "." * (1 + int(2 * seconds) % 3)
        line = Text(f"{self._what} {dots:<3}  ", no_wrap=True, overflow="ellipsis")
        line.append(f"{seconds:.0f} s", style="dim")
        return line
