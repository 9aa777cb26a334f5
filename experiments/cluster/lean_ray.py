"""A Ray for one sweep on one machine starts without the processes that serve nobody there.

`ray.init` starts an autoscaler, a dashboard without pages (it reports usage, if that is allowed)
and a follower of the workers' logs: three Python processes, for the second of which it waits. They
take as much processor time as all the rest of Ray, in the seconds in which a sweep has yet to
start. Ray has no public setting for that; where its inner names have changed they are started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def lean_ray(*, follow_logs: bool) -> Iterator[None]:
    """Let `ray.init`, called within, start only what runs tasks and actors.

    Args:
        follow_logs: Whether workers' output is to be shown; it needs the follower of their logs.
    """
    from ray._private.node import Node

    left_out: dict[str, Any] = {"start_monitor": _nothing}
    if os.environ.get("RAY_USAGE_STATS_ENABLED") == "0":
        left_out["start_api_server"] = _no_pages
    if not follow_logs:
        left_out["start_log_monitor"] = _nothing
    theirs = {name: getattr(Node, name) for name in left_out if hasattr(Node, name)}
    for name in theirs:
        setattr(Node, name, left_out[name])
    try:
        yield
    finally:
        for name, method in theirs.items():
            setattr(Node, name, method)


def _nothing(node: Any) -> None:
    """Start nothing."""


def _no_pages(node: Any, **options: Any) -> None:
    """Start no dashboard; its address is empty, as it is without pages."""
    node._webui_url = ""
