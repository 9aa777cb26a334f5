"""The Ray that a sweep starts for itself: only the processes that run its trials."""

from __future__ import annotations

import pytest
import ray
from ray._private import utils
from ray._private.node import Node

from experiments.cluster.session import ray_session, sweep_environment
from experiments.internals.ray import lean_ray
from experiments.spec.schema import Resources
from trainables import PPOConfig

NEEDED = {"gcs_server", "raylet"}
SERVE_NOBODY = {"monitor", "dashboard", "log_monitor"}
REAL_WORKERS = True  # the test is of processes


def listening() -> set[str]:
    """Return the addresses that this process and those under it listen at."""
    import psutil  # Ray's, which puts it on the path

    here = psutil.Process()
    sockets = [
        socket
        for process in (here, *here.children(recursive=True))
        for socket in process.net_connections(kind="inet")
    ]
    return {s.laddr.ip.removeprefix("::ffff:") for s in sockets if s.status == "LISTEN"}


@pytest.mark.full("test_only_what_runs_trials_is_started")
def test_what_an_algorithm_starts_is_reached_from_this_machine_alone() -> None:
    config = PPOConfig().environment("CartPole-v1").learners(num_cpus_per_learner=0.5)
    config.training(train_batch_size_per_learner=32, minibatch_size=32, num_epochs=1)
    try:
        with config.learners(num_learners=2).build() as algo:
            algo.train()
            assert listening() == {"127.0.0.1"}
    finally:
        ray.shutdown()


def test_only_what_runs_trials_is_started() -> None:
    before = (Node.start_monitor, Node.start_api_server, Node.start_log_monitor)
    with sweep_environment(), ray_session(Resources(num_cpus=1)):
        started = set(ray._private.worker._global_node.all_processes)
        assert started >= NEEDED
        assert not SERVE_NOBODY & started
        assert ray.get(ray.remote(lambda: 7).remote(), timeout=120) == 7
        assert listening() == {"127.0.0.1"}
    assert not ray.is_initialized()
    assert (Node.start_monitor, Node.start_api_server, Node.start_log_monitor) == before


def test_what_is_asked_for_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    theirs = (Node.start_api_server, Node.start_log_monitor)
    looks = utils.get_dashboard_dependency_error
    with lean_ray(follow_logs=True):
        assert (Node.start_api_server, Node.start_log_monitor) == theirs
        assert utils.get_dashboard_dependency_error == looks
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with lean_ray(follow_logs=False):
        assert Node.start_api_server not in theirs
        assert Node.start_log_monitor not in theirs
        assert isinstance(utils.get_dashboard_dependency_error(), ImportError)  # none is imported


def test_ray_with_other_inner_names_starts_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Node, "start_monitor")
    with lean_ray(follow_logs=False):
        assert not hasattr(Node, "start_monitor")
