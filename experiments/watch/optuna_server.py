"""Optuna's dashboard over a copy of the sweep's trials in memory, which follows the sweep."""

from __future__ import annotations

import logging
import socketserver
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import optuna

from experiments.errors import ExperimentError
from experiments.internals.optuna import storage_of
from experiments.search.study_storage import StudyCopy
from experiments.sweep.folder import load_sweep_spec
from experiments.sweep.load import spec_space
from experiments.watch.local_server import is_local, listening
from experiments.watch.study import shown_study, study_of
from experiments.watch.watched_sweep import WatchedSweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from search_spaces.space import SearchSpace

logger = logging.getLogger(__name__)

STUDY_PAGE = "/dashboard/studies/0"
"""The dashboard's page of the only study that there is."""
INTERVAL_S = 5.0  # between two looks at the folder; the dashboard asks every ten seconds


class StudyServer(socketserver.ThreadingMixIn, WSGIServer):
    """Serves the dashboard. `close` ends it."""

    daemon_threads = True
    follower: Follower

    def close(self) -> None:
        """End the following and free the port."""
        self.follower.close()
        self.server_close()


class Follower:
    """Keeps a study in memory equal to a sweep's folder.

    Args:
        sweep: The sweep; only this object reads it from now on.
        space: What it searches.

    Attributes:
        storage: Holds the study.
    """

    def __init__(self, sweep: WatchedSweep, space: SearchSpace) -> None:
        self._sweep, self._space = sweep, space
        sweep.look()
        storage, study_id = storage_of(shown_study(sweep))
        self.storage = storage
        self._copy = StudyCopy(storage, study_id, [], "in memory")
        self._copy.update(study_of(sweep, space))
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="study-follower", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the following."""
        self._end.set()
        self._thread.join()
        self._copy.close()

    def _run(self) -> None:
        while not self._end.wait(INTERVAL_S):
            try:
                self._sweep.look()
                self._copy.update(study_of(self._sweep, self._space))
            except Exception:
                logger.exception("%s: it could not be read", self._sweep.folder)


def study_server(folder: Path, port: int) -> StudyServer:
    """Return a server of Optuna's dashboard over a sweep, which listens.

    Args:
        folder: The sweep's folder.
        port: The port on loopback; 0 takes a free one.

    Raises:
        ExperimentError: The extra is not installed, the folder is no sweep's or has no spec, or the
            port cannot be used.
    """
    try:
        from optuna_dashboard import wsgi
    except ImportError as error:
        raise ExperimentError(
            f"Optuna's dashboard needs the extra `dashboard` ({error}): "
            "pip install 'tunescape[dashboard]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sweep, space = WatchedSweep(folder), spec_space(load_sweep_spec(folder))
    server: StudyServer = listening(StudyServer, port, _QuietHandler)
    server.follower = Follower(sweep, space)
    server.set_app(_local_only(wsgi(server.follower.storage)))
    return server


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal quiet."""


def _local_only(app: Any) -> Any:
    """Refuse requests under a foreign name; see `is_local`."""

    def checked(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if is_local(environ.get("HTTP_HOST")):
            found: Iterable[bytes] = app(environ, start)
            return found
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"Only for browsers of this machine: localhost.\n"]

    return checked
