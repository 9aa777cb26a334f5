"""A Ray for tests that start one of their own: see `ray_here` for one that modules share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray

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
def small_ray(**options: Any) -> Iterator[None]:
    """A Ray on this machine, with options of `ray.init`."""
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    with only_the_needed():
        ray.init(address="local", **{**quiet, **options})
    try:
        yield
    finally:
        ray.shutdown()
