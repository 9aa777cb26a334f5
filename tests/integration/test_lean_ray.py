"""The Ray that a sweep starts for itself: only the processes that run its trials."""

from __future__ import annotations

import pytest
import ray
from ray._private.node import Node

from experiments.cluster.session import ray_session, sweep_environment
from experiments.internals.ray import lean_ray
from experiments.spec.schema import Resources

NEEDED = {"gcs_server", "raylet"}
SERVE_NOBODY = {"monitor", "dashboard", "log_monitor"}
REAL_WORKERS = True  # the test is of processes


def test_only_what_runs_trials_is_started() -> None:
    before = (Node.start_monitor, Node.start_api_server, Node.start_log_monitor)
    with sweep_environment(), ray_session(Resources(num_cpus=1)):
        started = set(ray._private.worker._global_node.all_processes)
        assert started >= NEEDED
        assert not SERVE_NOBODY & started
        assert ray.get(ray.remote(lambda: 7).remote(), timeout=120) == 7
    assert not ray.is_initialized()
    assert (Node.start_monitor, Node.start_api_server, Node.start_log_monitor) == before


def test_what_is_asked_for_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    theirs = (Node.start_api_server, Node.start_log_monitor)
    with lean_ray(follow_logs=True):
        assert (Node.start_api_server, Node.start_log_monitor) == theirs
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with lean_ray(follow_logs=False):
        assert Node.start_api_server not in theirs
        assert Node.start_log_monitor not in theirs


def test_ray_with_other_inner_names_starts_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Node, "start_monitor")
    with lean_ray(follow_logs=False):
        assert not hasattr(Node, "start_monitor")
