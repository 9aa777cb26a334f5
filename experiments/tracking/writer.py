"""The one thread that talks to MLflow, so that the Tune loop never waits for it.

Requests are queued, rows of one run are merged into batches, and a tracking server that does not
answer delays the thread, not the sweep. Nothing here raises into the caller.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.credentials import scrubbed
from experiments.tracking.store import (
    MAX_BATCH_METRICS,
    Row,
    connect,
    first_line,
    is_connection_error,
)

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

logger = logging.getLogger(__name__)

_PERMANENT_ERRORS = frozenset(
    {
        "BAD_REQUEST",
        "INVALID_PARAMETER_VALUE",
        "INVALID_STATE",
        "NOT_FOUND",
        "PERMISSION_DENIED",
        "RESOURCE_ALREADY_EXISTS",
        "RESOURCE_DOES_NOT_EXIST",
        "UNAUTHENTICATED",
    }
)
MAX_PENDING_METRICS = 200_000
_TELL_AFTER_S = 10.0  # of waiting at the end
_CLOSING_DELAY_S = 0.5  # between two tries at the end
_MAX_ATTEMPTS = 3  # of a request that fails although the server answers


@dataclass
class _Request:
    """A call to make, in order, on the thread; `run` is the key of the run that it concerns."""

    run: str | None
    call: Callable[[], None] | None = None  # None: write `rows` and `tags`
    rows: list[Row] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    num_metrics: int = 0
    attempts: int = 0


class MLflowWriter:
    """Queues requests and carries them out on a daemon thread, in order.

    Args:
        tracking_uri: MLflow's tracking URI, e.g. `sqlite:////abs/runs/mlflow.db` or `http://...`.
        write_rows: A function that writes a batch of rows and tags of one run, on the thread.
        flush_interval_s: Least seconds between two rounds of writing; rows merge meanwhile.
        max_pending_metrics: Above this many waiting values the oldest rows are dropped.
    """

    def __init__(
        self,
        tracking_uri: str,
        write_rows: Callable[[str | None, list[Row], dict[str, str]], None],
        *,
        flush_interval_s: float = 0.5,
        max_pending_metrics: int = MAX_PENDING_METRICS,
    ) -> None:
        self.tracking_uri = tracking_uri
        self.shown_uri = scrubbed(tracking_uri)
        self.reachable = True
        self._write_rows = write_rows
        self._flush_interval_s = flush_interval_s
        self._max_pending_metrics = max_pending_metrics
        self._client: MlflowClient | None = None
        self._queue: deque[_Request] = deque()
        self._num_waiting: Counter[str | None] = Counter()  # requests in the queue, by run
        self._mergeable: dict[str | None, _Request] = {}  # the request new rows may still join
        self._num_pending_metrics = 0
        self._num_dropped = 0
        self._num_done = 0
        self._warned: set[str] = set()
        self._changed = threading.Condition()
        self._closing = False
        self._disabled = False
        self._thread = threading.Thread(target=self._work, name="mlflow-writer", daemon=True)
        self._thread.start()

    @property
    def client(self) -> MlflowClient:
        """The connected client; only for calls that run on the thread."""
        assert self._client is not None, "requests run after the client was made"
        return self._client

    @property
    def num_dropped(self) -> int:
        """Metric values that were given up: the queue was full, or the server refused them."""
        return self._num_dropped

    def is_waiting(self, run: str | None) -> bool:
        """Tell whether more requests of a run are queued; what they have in common can wait."""
        return self._num_waiting[run] > 0

    # -- called from the Tune loop ---------------------------------------------------------------

    def submit(self, run: str | None, call: Callable[[], None]) -> None:
        """Queue `call`; rows of `run` queued earlier are written before it, later ones after."""
        with self._changed:
            if self._closing or self._disabled:
                return
            self._mergeable.pop(run, None)
            self._queue.append(_Request(run, call))
            self._num_waiting[run] += 1
            self._changed.notify_all()

    def submit_row(self, run: str | None, row: Row) -> None:
        """Queue a row of metrics, merging it with waiting rows of the same run."""
        with self._changed:
            if self._closing or self._disabled or not row.values:
                return
            request = self._open_request(run, len(row.values))
            request.rows.append(row)
            request.num_metrics += len(row.values)
            self._num_pending_metrics += len(row.values)
            if self._num_pending_metrics > self._max_pending_metrics:
                self._drop_oldest_rows()
            self._changed.notify_all()

    def submit_tags(self, run: str | None, tags: Mapping[str, str]) -> None:
        """Queue tags of a run; they go with rows of it that wait already."""
        with self._changed:
            if not self._closing and not self._disabled:
                self._open_request(run, 0).tags.update(tags)
                self._changed.notify_all()

    def _open_request(self, run: str | None, num_metrics: int) -> _Request:
        """Return the request that new rows and tags of a run may join."""
        request = self._mergeable.get(run)
        if request is None or request.num_metrics + num_metrics > MAX_BATCH_METRICS:
            request = self._mergeable[run] = _Request(run)
            self._queue.append(request)
            self._num_waiting[run] += 1
        return request

    def close(self, timeout_s: float = 60.0, unreachable_timeout_s: float = 5.0) -> bool:
        """Write what is queued, then end the thread; return whether all was written.

        Args:
            timeout_s: Longest wait for one request of a server that answers.
            unreachable_timeout_s: Longest wait while it does not.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        begin = progress = time.monotonic()
        num_done = self._num_done
        while self._thread.is_alive():
            now = time.monotonic()
            if self._num_done != num_done:
                num_done, progress = self._num_done, now
            if now - progress > (timeout_s if self.reachable else unreachable_timeout_s):
                break
            if now - begin > _TELL_AFTER_S:
                self.warn_once(
                    "closing",
                    f"MLflow at {self.shown_uri} is slow: the sweep has ended, and "
                    f"{len(self._queue)} requests are still being written.",
                )
            self._thread.join(timeout=0.05)
        with self._changed:
            num_left = len(self._queue)
            num_lost = self._num_dropped + self._num_pending_metrics
            self._disabled = True  # a thread still stuck in a request ends after it
            self._changed.notify_all()
        complete = num_left == 0 and self._num_dropped == 0 and not self._thread.is_alive()
        if not complete:
            logger.warning(
                "MLflow at %s: %d requests and %d metric values of this sweep could not be "
                "written. The results in the sweep's folder are complete.",
                self.shown_uri,
                num_left,
                num_lost,
            )
        return complete

    # -- the thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        delay_s = 1.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing)
                if self._disabled or not self._queue:
                    return
                if not self._closing:  # let rows gather, unless close() interrupts
                    self._changed.wait_for(lambda: self._closing, timeout=self._flush_interval_s)
            if self._flush():
                delay_s = 1.0
                continue
            with self._changed:
                if not self._closing:
                    self._changed.wait_for(lambda: self._closing, timeout=delay_s)
                elif self._changed.wait_for(lambda: self._disabled, timeout=_CLOSING_DELAY_S):
                    return  # close() has given up
            delay_s = min(60.0, 2 * delay_s)

    def _flush(self) -> bool:
        """Carry out what is queued; return False if the server does not answer."""
        while True:
            with self._changed:
                if not self._queue or self._disabled:
                    return True
                request = self._queue.popleft()
                self._forget(request)
            try:
                if self._client is None:
                    self._client = connect(self.tracking_uri)
                if request.call is not None:
                    request.call()
                else:
                    self._write_rows(request.run, request.rows, request.tags)
            except ImportError as error:
                self._disable(f"MLflow cannot be imported ({error}): pip install mlflow")
                return True
            except Exception as error:  # nothing that MLflow does may end a sweep
                if not self._handle(request, error):
                    return False
            else:
                self._num_done += 1
                with self._changed:
                    self._num_pending_metrics -= request.num_metrics
                if not self.reachable:
                    self.reachable = True
                    logger.warning("MLflow at %s answers again.", self.shown_uri)

    def _handle(self, request: _Request, error: Exception) -> bool:
        """Drop or requeue a failed request; return False if the server does not answer."""
        request.attempts += 1
        code = getattr(error, "error_code", "")
        if is_connection_error(error):
            self.reachable = False
            self.warn_once(
                "unreachable",
                f"MLflow at {self.shown_uri} cannot be reached ({first_line(error)}). The "
                "sweep continues; its results are logged to MLflow once it answers.",
            )
        elif code in _PERMANENT_ERRORS or request.attempts >= _MAX_ATTEMPTS:
            self.warn_once(
                f"refused {code}",
                f"MLflow at {self.shown_uri} refused a request, which is dropped "
                f"({first_line(error)}).",
            )
            with self._changed:
                self._num_dropped += request.num_metrics
                self._num_pending_metrics -= request.num_metrics
            return True
        with self._changed:
            self._queue.appendleft(request)
            self._num_waiting[request.run] += 1
        return False

    def _forget(self, request: _Request) -> None:
        """Note that a request has left the queue."""
        self._num_waiting[request.run] -= 1
        if not self._num_waiting[request.run]:
            del self._num_waiting[request.run]  # runs come and go, a thousand and more
        if self._mergeable.get(request.run) is request:
            del self._mergeable[request.run]

    def _drop_oldest_rows(self) -> None:
        oldest = next(request for request in self._queue if request.rows)
        self._num_pending_metrics -= oldest.num_metrics
        self._num_dropped += oldest.num_metrics
        oldest.rows, oldest.num_metrics = [], 0
        if not oldest.tags:
            self._queue.remove(oldest)
            self._forget(oldest)
        self.warn_once(
            "full",
            f"MLflow at {self.shown_uri} is too slow or down: the oldest metrics waiting for it "
            "are dropped. The results in the sweep's folder are complete.",
        )

    def _disable(self, reason: str) -> None:
        self.warn_once("disabled", f"{reason}. The sweep continues without MLflow.")
        with self._changed:
            self._disabled = True
            self._queue.clear()

    def already_told(self, kind: str) -> None:
        """Leave out the first warning of a kind, which somebody else has given."""
        self._warned.add(kind)

    def warn_once(self, kind: str, message: str) -> None:
        """Log `message` as a warning unless one of the same kind was logged before."""
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning(message)
