"""A Ray that this process starts for itself: it listens at the loopback only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

LOOPBACK = "127.0.0.1"


@contextmanager
def on_loopback() -> Iterator[dict[str, Any]]:
    """Keep a Ray that starts meanwhile to the loopback; yields options for `ray.init`.

    By itself its processes listen on all interfaces of the machine, where others may reach them.
    """
    from ray._private import services

    # Ray asks for the address at which others reach a machine, even where it is told the loopback.
    address_for_others = services.get_node_ip_address
    services.get_node_ip_address = lambda *_, **__: LOOPBACK
    try:
        yield {"_node_ip_address": LOOPBACK, "include_dashboard": False}
    finally:
        services.get_node_ip_address = address_for_others


def join_or_start() -> None:
    """Join the Ray that `RAY_ADDRESS` names or `ray start` began here; without one, start one."""
    from ray._private import services

    found: Any = services.canonicalize_bootstrap_address
    if os.environ.get("RAY_ADDRESS") or found(None) is not None:
        ray.init(include_dashboard=False)
        return
    with on_loopback() as options:
        ray.init(address="local", **options)
