"""Every private part of Ray's core that is used: the rest of the package calls these functions.

Ray has no public way to leave out processes that serve nobody, to ask for what has died, is free or
is starting, or to leave signals alone. `tests` names the version for which these parts are as they
are taken to be here.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def lean_ray(*, follow_logs: bool) -> Iterator[None]:
    """Let `ray.init`, called within, start only what runs tasks and actors.

    It would start an autoscaler, a dashboard without pages (it reports usage, if that is allowed)
    and a follower of the workers' logs: three Python processes, for the second of which it waits.
    They take as much processor time as all the rest of Ray, in the seconds in which a sweep has yet
    to start. The agent of the dashboard, for which a raylet waits, is started as it is where the
    dashboard is not installed. Where Ray's inner names have changed all are started.

    Args:
        follow_logs: Whether workers' output is to be shown; it needs the follower of their logs.
    """
    from ray._private import utils
    from ray._private.node import Node

    left_out: dict[tuple[Any, str], Any] = {(Node, "start_monitor"): _nothing}
    if os.environ.get("RAY_USAGE_STATS_ENABLED") == "0":
        left_out[Node, "start_api_server"] = _no_pages
        left_out[utils, "get_dashboard_dependency_error"] = _not_installed
    if not follow_logs:
        left_out[Node, "start_log_monitor"] = _nothing
    theirs = {place: getattr(*place) for place in left_out if hasattr(*place)}
    for place in theirs:
        setattr(*place, left_out[place])
    try:
        yield
    finally:
        for place, function in theirs.items():
            setattr(*place, function)


def _nothing(node: Any) -> None:
    """Start nothing."""


def _no_pages(node: Any, **options: Any) -> None:
    """Start no dashboard; its address is empty, as it is without pages."""
    node._webui_url = ""


def _not_installed() -> ImportError:
    """Say that the dashboard's libraries are missing; Ray would import them to find out."""
    return ImportError("the dashboard is left out")


@contextmanager
def worker_program(
    program: Path, on_raylet: Callable[[], AbstractContextManager[list[int]]]
) -> Iterator[None]:
    """Let raylets that are started within, by `ray.init`, run a program for each worker.

    Args:
        program: Run by this Python in place of `default_worker.py`, with its arguments, and in
            place of `setup_worker.py`, then with itself as the first argument. A raylet knows the
            latter by its name, `setup_worker.py`.
        on_raylet: Encloses the start of each raylet; its process id is added to the list.
    """
    from ray._private.node import Node

    node_class: Any = Node
    theirs = node_class.start_raylet

    def start_raylet(node: Any, *args: Any, **kwargs: Any) -> None:
        with on_raylet() as started:
            node._ray_params.worker_path = node._ray_params.setup_worker_path = str(program)
            theirs(node, *args, **kwargs)
            started.append(node.all_processes["raylet"][0].process.pid)

    node_class.start_raylet = start_raylet
    try:
        yield
    finally:
        node_class.start_raylet = theirs


def worker_variables(raylet: int) -> dict[str, str]:
    """Return what a raylet that has just been started sets in its workers' environment.

    Args:
        raylet: Its process id.
    """
    first_job = "01000000"
    return {
        "RAY_RAYLET_PID": str(raylet),
        "RAY_JOB_ID": first_job,
        "RAY_LD_PRELOAD_ON_WORKERS": "0",
    }


def refuses(node: Any) -> bool:
    """Tell whether the GCS of a node that was started here takes no connections any more."""
    host, _, port = node.gcs_address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return False
    except OSError:
        return True


@contextmanager
def untouched_sigterm() -> Iterator[None]:
    """Keep `ray.init`, called within, from taking SIGTERM over."""
    import ray._private.utils as ray_utils

    theirs: Any = ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        ray_utils.set_sigterm_handler = theirs


def node_started_here() -> Any:
    """Return what holds the processes of the Ray that was started here; None if none was."""
    import ray._private.worker as worker

    return worker._global_node


def dead_processes(node: Any) -> set[str]:
    """Return the kinds of the processes of such a node that have died: `raylet`, `gcs_server`."""
    return {kind for kind, _ in node.dead_processes()}


def free_on_nodes() -> list[dict[str, float]]:
    """Return the resources that are free now, by node."""
    from ray._private.state import available_resources_per_node

    return [dict(node) for node in available_resources_per_node().values()]


def is_starting_actors(job: Any) -> bool:
    """Tell whether an actor of a job has its resources, and is not yet alive."""
    from ray._private.state import actors

    return any(
        actor["JobID"] == job
        for state in ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
        for actor in actors(actor_state_name=state).values()
    )
