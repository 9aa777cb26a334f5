"""The Ray that a sweep has started, and what dies of it."""

from __future__ import annotations

import signal
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.cluster import ray_watch
from experiments.cluster.ray_watch import _Watch


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of a GCS that listens: `close` ends that, `dead` are processes, `stop` is a signal."""
    server = socket.create_server(("127.0.0.1", 0))
    node = SimpleNamespace(gcs_address=f"127.0.0.1:{server.getsockname()[1]}")
    made = SimpleNamespace(close=server.close, dead=set(), stop=None, ended=[])
    monkeypatch.setattr(ray_watch, "node_started_here", lambda: node)
    monkeypatch.setattr(ray_watch, "dead_processes", lambda node: made.dead)
    monkeypatch.setattr(ray_watch, "received", lambda: made.stop)
    monkeypatch.setattr(ray_watch.threading, "Thread", lambda **_: SimpleNamespace(start=int))
    monkeypatch.setattr(_Watch, "_end", lambda self: made.ended.append(self.lost))
    monkeypatch.setattr(ray_watch, "_POLL_S", 0.01)
    monkeypatch.setattr(ray_watch, "_GRACE_S", 0.5)
    monkeypatch.setattr(ray_watch, "_STUCK_S", 0.05)
    made.watch = _Watch()
    yield made
    server.close()


def test_a_gcs_that_takes_no_connections_after_a_signal_has_gone(watch: Any) -> None:
    assert watch.watch.look() == ""
    watch.stop = signal.SIGTERM
    assert watch.watch.look() == ""
    watch.close()
    watch.stop = None
    assert watch.watch.look() == ""  # it may only be busy
    watch.stop = signal.SIGTERM
    assert "its GCS" in watch.watch.look()


def test_who_is_stuck_in_a_call_of_ray_is_not_waited_for(
    watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.stop, watch.dead = signal.SIGTERM, {"raylet"}
    waits: list[float] = []
    monkeypatch.setattr(watch.watch.closed, "wait", lambda s: waits.append(s) or False)
    for in_ray, least, most in ((True, 5, 8), (False, 49, 51)):
        waits.clear()
        monkeypatch.setattr(ray_watch, "_is_in_ray", lambda found=in_ray: found)
        watch.watch._run()
        assert least <= len(waits) <= most and "its raylet" in watch.ended.pop()
    monkeypatch.setattr(watch.watch.closed, "wait", lambda s: True)
    watch.watch._run()
    assert not watch.ended  # it came to an end by itself
