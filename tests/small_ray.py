"""A Ray for tests that start one of their own: see `ray_here` for one that modules share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from experiments.internals.ray import lean_ray


@contextmanager
def only_the_needed() -> Iterator[None]:
    """Of a Ray that is started within no process runs that serves no test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_prestart_worker_first_driver", "0")
        with lean_ray(follow_logs=False):
            yield


@contextmanager
def small_cluster(*nodes: dict[str, Any], **head: Any) -> Iterator[Cluster]:
    """Several nodes on this machine, joined by this process; only it knows the address.

    By itself such a cluster is the one that any program on the machine then joins.

    Args:
        *nodes: The resources of each node besides the head.
        **head: Those of the head.
    """
    with only_the_needed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray._private.utils, "write_ray_address", lambda *_: None)
        made = Cluster(initialize_head=True, head_node_args=head)
        for resources in nodes:
            made.add_node(**resources)
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
    made.wait_for_nodes()
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@contextmanager
def small_ray(**options: Any) -> Iterator[None]:
    """A Ray on this machine, with options of `ray.init`."""
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    with only_the_needed():
        ray.init(address="local", **{**quiet, **options})
    try:
        yield
    finally:
        ray.shutdown()
