"""The live page's server: five addresses, read only, for this machine alone."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from experiments.watch.feed import Feed
from experiments.watch.local_server import is_local, listening
from experiments.watch.page import SCRIPT, page_of
from experiments.watch.watched_sweep import WatchedSweep

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The report brings its own policy, which names its scripts; here it can reach nothing of ours.
_REPORT_POLICY = "sandbox allow-scripts allow-downloads allow-popups; frame-ancestors 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HTML, _JS = "text/html; charset=utf-8", "text/javascript; charset=utf-8"
_EVENTS, _TEXT = "text/event-stream; charset=utf-8", "text/plain; charset=utf-8"


class WatchServer(ThreadingHTTPServer):
    """Serves a sweep's page. `close` ends it."""

    daemon_threads = True
    sweep: WatchedSweep
    feed: Feed

    def close(self) -> None:
        """End the events and free the port."""
        self.feed.close()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def watch_server(sweep: WatchedSweep, port: int) -> WatchServer:
    """Return a server of a sweep's page, which listens; `serve_forever` answers.

    Args:
        sweep: The sweep.
        port: The port on loopback; 0 takes a free one.

    Raises:
        ExperimentError: The port cannot be used.
    """
    server = listening(WatchServer, port, _Handler)
    server.sweep, server.feed = sweep, Feed(sweep)
    return server


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    server_version, sys_version = "Tunescape", ""

    def do_GET(self) -> None:
        """Answer one of the addresses; no path of a request ever becomes one of a file."""
        if not is_local(self.headers.get("Host")):
            self._refuse(HTTPStatus.FORBIDDEN, "Only for browsers of this machine: localhost.")
        elif self.path == "/":
            self._send(page_of(self.server.sweep.folder.name).encode(), _HTML)
        elif self.path == "/page.js":
            self._send(SCRIPT.read_bytes(), _JS)
        elif self.path == "/plotly.js":
            self._send_plotly()
        elif self.path == "/events":
            self._send_events()
        elif self.path == "/report" and (report := self.server.feed.report()) is not None:
            self._send_report(report)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _refuse_method(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET: this page changes nothing.")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse_method

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal quiet."""

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._send(f"{text}\n".encode(), _TEXT, {"Allow": "GET"}, status)

    def _send_plotly(self) -> None:
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        more = {"Cache-Control": "max-age=86400"} | (
            {"Content-Encoding": "gzip"} if accepts else {}
        )
        packed = _packed_plotly()
        self._send(packed if accepts else gzip.decompress(packed), _JS, more)

    def _send_report(self, report: Path) -> None:
        try:
            text = report.read_bytes()
        except OSError:
            self._refuse(HTTPStatus.NOT_FOUND, "The report is no longer there.")
            return
        self._send(text, _HTML, {"Content-Security-Policy": _REPORT_POLICY})

    def _send_events(self) -> None:
        self._begin(HTTPStatus.OK, {"Content-Type": _EVENTS, "Cache-Control": "no-store"})
        events = self.server.feed.events()
        try:
            for event in events:
                self.wfile.write(event)
        except ConnectionError:  # the page was closed
            pass
        finally:
            events.close()

    def _send(
        self,
        body: bytes,
        kind: str,
        headers: Mapping[str, str] | None = None,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> None:
        own = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        self._begin(status, {**own, **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Security-Policy": _POLICY} | _HEADERS | headers).items():
            self.send_header(name, value)
        self.end_headers()


@lru_cache(maxsize=1)
def _packed_plotly() -> bytes:
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6)
