"""What Ctrl-C says while a sweep runs: at once what is being saved, and at the second what is not.

Tune takes the first one over: it ends its loop, saves the sweep, and waits for the trials'
processes, without a word. Then what has been reached is written up. The second one ends all that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from experiments.spec.paths import command_line, shown_path
from experiments.stop_signals import received, tell
from experiments.terminal import say

if TYPE_CHECKING:
    from rich.console import Console

_LOOK_S = 0.1

RESULTS = "the best policy, the pictures and the report"
"""What is written when the trials have ended."""

TRACKED = "what MLflow was still to get of them"
"""What is left when that is written."""


class Interruption:
    """Speaks at each Ctrl-C, and at each signal that stands for one.

    Args:
        folder: The sweep's folder.
        console: Where progress is shown.
        unless: Tells whether something else than a user ends the sweep, which speaks for itself.

    Attributes:
        unsaved: What an end at once leaves out now.
    """

    ends_at_once = True  # a signal that comes to its handler need not be announced

    def __init__(self, folder: Path, console: Console, unless: Callable[[], Any]) -> None:
        self._folder, self._console, self._unless = folder, console, unless
        self.unsaved = RESULTS
        self._handler = self._end_at_once  # one object: a method is a new one each time

    @contextmanager
    def spoken(self) -> Iterator[None]:
        """Say, while Tune runs, what the first Ctrl-C does, and what the second one left out."""
        if not _is_main():
            yield
            return
        ended, before = threading.Event(), signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._handler)  # Tune puts it back at the first one
        thread = threading.Thread(target=self._watch, args=(ended,), name="ctrl-c", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.unsaved = RESULTS
            signal.signal(signal.SIGINT, before)

    @property
    def pressed(self) -> bool:
        """Whether Tune was told to end, within `spoken`."""
        return signal.getsignal(signal.SIGINT) is self._handler

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let a Ctrl-C say, while results are written, that they are not."""
        if not _is_main():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def say(self, text: str) -> None:
        """Show a line where progress is shown."""
        say(self._console, text)

    def _watch(self, ended: threading.Event) -> None:
        """Wait for Tune's handler to come, and to go."""
        taken = False
        while not ended.wait(_LOOK_S):
            if not self.pressed:
                taken = True
            elif taken:
                self.unsaved = f"what trials did after their latest checkpoints, and {RESULTS}"
                if not received() and not self._unless():
                    self.say(
                        "Ctrl-C: all trials stop. Saving the sweep's state and ending the trials' "
                        f"processes takes some seconds; then {RESULTS} are written to "
                        f"{shown_path(self._folder)}. Ctrl-C again stops all of this at once."
                    )
                return

    def _end_at_once(self, number: int, frame: FrameType | None) -> None:
        """Say what is left out, and end."""
        if not self._unless():
            name = stop.name if (stop := received()) else "Ctrl-C"
            resume = command_line("resume", self._folder)
            tell(
                f"\n{name}: ending at once. Not saved: {self.unsaved}. `{resume}` continues "
                "from the saved state.\n"
            )
        raise KeyboardInterrupt


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
