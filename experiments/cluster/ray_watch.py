"""Notices when the Ray that was started for a sweep dies, where Ray itself would wait for ever.

Without its raylet no trial ever starts again; without its GCS Ray ends this process after a minute,
with the runs in MLflow still open. A thread looks after the two processes. If one has died, it ends
the sweep as Ctrl-C would; and where that does not come to an end, as calls to a Ray that has gone
may not, it closes what is open and ends the process itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from experiments.errors import MachineFailed
from experiments.internals.ray import dead_processes, node_started_here, refuses
from experiments.spec.paths import saved_line
from experiments.stop_signals import interrupted_status, received, tell

_LOOK_S = 0.5
_GRACE_S = 8.0  # for the end; `docker stop`, which may have ended Ray, too, kills after 10
_STUCK_S = 2.0  # in a call of Ray's, which waits a minute for a GCS that has gone
_POLL_S = 0.1
_NAMES = {"raylet": "its raylet", "gcs_server": "its GCS"}

_watch: _Watch | None = None


def lost_ray() -> str:
    """Return which process of the Ray that was started here has died; "" if none has."""
    return _watch.look() if _watch is not None else ""


@contextmanager
def watched_ray() -> Iterator[None]:
    """Look after the Ray that was just started here, and shut it down in the end."""
    global _watch
    import ray

    _watch = watch = _Watch()
    try:
        yield
    finally:
        watch.closing.set()
        ray.shutdown()
        watch.closed.set()
        _watch = None


@contextmanager
def closed_without_ray(folder: Path, close: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Say what is to be done if the process must be ended while its main thread waits for Ray.

    Args:
        folder: The folder of the sweep or matrix, to be resumed; of several the first counts.
        close: Closes what is open; called on another thread.
    """
    watch = _watch
    if watch is None:
        yield
        return
    watch.open.append((folder, close))
    try:
        yield
    finally:
        if not watch.lost:  # else Ray may still wait to be shut down
            watch.open.pop()


class _Watch:
    def __init__(self) -> None:
        self.open: list[tuple[Path, Callable[[], None]]] = []
        self.lost = ""
        self.closing, self.closed = threading.Event(), threading.Event()
        self._node = node_started_here()
        threading.Thread(target=self._run, name="ray-watch", daemon=True).start()

    def look(self) -> str:
        """Tell whether the processes live, now."""
        if not self.lost and self._node is not None and not self.closing.is_set():
            dead = dead_processes(self._node) & set(_NAMES)
            if not dead and received() and refuses(self._node):
                dead = {"gcs_server"}  # the signal was for all processes, and it takes its time
            if dead:
                names = " and ".join(_NAMES[kind] for kind in sorted(dead))
                self.lost = f"Ray has died ({names}): it was killed, or the memory was full"
        return self.lost

    def _run(self) -> None:
        while not self.look():
            if self.closing.wait(_LOOK_S):
                return
        if not received():  # else the main thread is about to end
            signal.pthread_kill(_main(), signal.SIGINT)
        stuck = 0.0
        for _ in range(round(_GRACE_S / _POLL_S)):
            if self.closed.wait(_POLL_S):
                return
            stuck = stuck + _POLL_S if _is_in_ray() else 0.0
            if stuck > _STUCK_S:
                break
        self._end()

    def _end(self) -> None:
        status = interrupted_status() if received() else MachineFailed.exit_status
        try:
            for _, close in reversed(self.open):
                with suppress(Exception):
                    close()
            resume = saved_line(self.open[0][0]) if self.open else "nothing was begun"
            stop = received()
            cause = f"Interrupted by {stop.name}" if stop else f"Error: {self.lost}"
            tell(f"{cause}; {resume}\n")
        finally:
            os._exit(status)


def _main() -> int:
    ident = threading.main_thread().ident
    assert ident is not None
    return ident


def _is_in_ray() -> bool:
    """Tell whether the main thread is in code of Ray's, called by whomever."""
    import ray

    frame = sys._current_frames().get(_main())
    return frame is not None and Path(ray.__file__).parent in Path(frame.f_code.co_filename).parents
