"""The live page's server: what it serves, to whom, and nothing else."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from analysis_sweeps import row
from watched_folders import Folder

from experiments.errors import ExperimentError
from experiments.watch import feed
from experiments.watch.local_server import is_local
from experiments.watch.server import WatchServer, watch_server
from experiments.watch.watched_sweep import WatchedSweep


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "<b>sweep")
    folder.add("a", rows=[row(1, 1.0)])
    return folder


@pytest.fixture
def server(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchServer]:
    monkeypatch.setattr(feed, "INTERVAL_S", 0.02)
    monkeypatch.setattr(feed, "_BEAT_S", 600)
    server = watch_server(WatchedSweep(folder.path), 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.close()
    thread.join()


def get(server: WatchServer, path: str = "/", **headers: str) -> Any:
    request = Request(f"http://127.0.0.1:{server.server_port}{path}", headers=headers)
    return urlopen(request, timeout=30)


def refused(server: WatchServer, method: str, path: str, host: str = "localhost") -> int:
    """The status of a request as it is written: urllib would tidy its path."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    if host:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert b"search_space" not in body and b"episode_return" not in body
    return answer.status


class Events:
    """The events of one page, as they come."""

    def __init__(self, server: WatchServer) -> None:
        self.answer = get(server, "/events")
        assert self.answer.headers["Content-Type"].startswith("text/event-stream")

    def next(self) -> tuple[str, dict[str, Any]]:
        name = ""
        while True:
            line = self.answer.readline().decode()
            assert line, "the events ended"
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            if line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))

    def until(self, key: str) -> dict[str, Any]:
        """The next change that has something of a key; others are the clock's."""
        while True:
            name, message = self.next()
            assert name == "changes"
            if key in message:
                return message


def test_the_page_brings_its_policy_and_escapes(server: WatchServer) -> None:
    with get(server) as answer:
        page = answer.read().decode()
        policy = answer.headers["Content-Security-Policy"]
    assert "<h1>&lt;b&gt;sweep</h1>" in page and "<b>sweep" not in page
    assert "script-src 'self';" in policy and "default-src 'none'" in policy
    assert "http" not in page.replace("http-equiv", "")  # it asks nobody else
    with get(server, "/page.js") as answer:
        script = answer.read().decode()
    assert "EventSource" in script and "innerHTML" not in script
    with get(server, "/plotly.js", **{"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.headers["Content-Type"].startswith("text/javascript")


def test_events_follow_the_files_to_every_page(server: WatchServer, folder: Folder) -> None:
    with folder.running():
        pages = [Events(server), Events(server)]
        for page in pages:
            name, message = page.next()
            assert name == "whole" and message["curves"]["a"]["values"] == [[1.0]]
        folder.report("a", 2, 4.0)
        for page in pages:
            assert page.until("curves")["curves"]["a"]["values"] == [[4.0]]
        pages[0].answer.close()  # and comes again
        folder.add("b", rows=[row(1, 9.0)])
        again = Events(server)
        name, message = again.next()
        assert name == "whole" and message["order"] == ["b", "a"]
        assert pages[1].until("order")["order"] == ["b", "a"]


def test_nobody_looks_without_a_page(server: WatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    look = server.sweep.look
    monkeypatch.setattr(server.sweep, "look", lambda: (looks.append(1), look())[1])
    with get(server):
        pass
    time.sleep(0.2)  # ten times as long as between two looks
    assert looks == []
    Events(server).next()
    assert looks


def test_only_get_and_only_these_addresses(server: WatchServer, folder: Folder) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        assert refused(server, method, "/") == 405
    assert refused(server, "TRACE", "/") == 501
    (folder.path / "report.html").write_text("episode_return: of an earlier run")
    with folder.running():
        paths = ["/spec.yaml", "/../spec.yaml", "/%2e%2e/spec.yaml", f"//{folder.path}/spec.yaml"]
        for path in [*paths, "/trial_a/result.json", "/page.js/..", "/page.js?x", "/report", "*"]:
            assert refused(server, "GET", path) == 404, path


def test_foreign_names_are_refused(server: WatchServer) -> None:
    """What a page of another site would send whose name was pointed at this machine."""
    port = server.server_port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "",
        "localhost.evil.example",
        "127.0.0.1.x",
    ):
        assert refused(server, "GET", "/", host) == 403, host
    for host in ("localhost", f"LOCALHOST:{port}", "127.0.0.1:1", "[::1]:8000"):
        assert is_local(host)


def test_the_report_of_a_sweep_that_has_ended(server: WatchServer, folder: Folder) -> None:
    folder.killed()
    report = folder.path / "report.html"
    with pytest.raises(HTTPError, match="404"):
        get(server, "/report")
    report.write_text("<p>all of it")
    with get(server, "/report") as answer:
        assert answer.read() == b"<p>all of it"
        assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-scripts")
    report.unlink()
    report.symlink_to("/etc/hostname")
    with pytest.raises(HTTPError, match="404"):
        get(server, "/report")


def test_a_port_that_is_taken(server: WatchServer, folder: Folder) -> None:
    with pytest.raises(ExperimentError, match=rf"^port {server.server_port} on 127.0.0.1 cannot"):
        watch_server(WatchedSweep(folder.path), server.server_port)
