"""Where the time goes: `pytest --times FILE` notes it, `python tests/suite_times.py FILE` tells.

Each test is a line of JSON in FILE: wall-clock seconds, CPU seconds of its process and of the
children that it waited for (workers of Ray are children of Ray's), and seconds by kind. A kind that
begins within another pauses it, so that kinds add up to the wall clock.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

# What is timed, once its module is imported: module, class or "", name, kind.
TIMED = (
    ("ray", "", "init", "Ray's start"),
    ("ray", "", "shutdown", "Ray's start"),
    ("subprocess", "Popen", "wait", "processes"),
    ("subprocess", "Popen", "communicate", "processes"),
    ("ray.tune.tuner", "Tuner", "fit", "sweeps"),
    ("ray.tune.trainable.trainable", "Trainable", "__init__", "building"),
    ("ray.tune.trainable.trainable", "Trainable", "train", "training"),
    ("time", "", "sleep", "sleeping"),
)
KINDS = (
    *("import", "collection", "Ray's start", "processes", "sweeps"),
    *("building", "training", "sleeping", "asserting"),
)


class SuiteTimes:
    """A plugin of pytest that appends a line for each test to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = time.perf_counter()
        self._timed: set[tuple[str, str, str]] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        kind = "import" if isinstance(collector, pytest.Module) else "collection"
        with self._test(str(collector.nodeid)), self._kind(kind):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        with self._test(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        self._time_what_is_imported()
        return (yield)

    @contextlib.contextmanager
    def _test(self, nodeid: str) -> Iterator[None]:
        self._seconds.clear()
        cpu = _cpu_seconds()
        with self._kind("asserting"):
            yield
        line = {"test": nodeid, "cpu": _cpu_seconds() - cpu, **self._seconds}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @contextlib.contextmanager
    def _kind(self, kind: str) -> Iterator[None]:
        self._lap()
        self._running.append(kind)
        try:
            yield
        finally:
            self._lap()
            self._running.pop()

    def _lap(self) -> None:
        now = time.perf_counter()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now

    def _time_what_is_imported(self) -> None:
        for module, class_name, name, kind in TIMED:
            if module in sys.modules and (module, class_name, name) not in self._timed:
                self._timed.add((module, class_name, name))
                owner = sys.modules[module]
                owner = getattr(owner, class_name) if class_name else owner
                setattr(owner, name, self._as(kind, getattr(owner, name)))

    def _as(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        process, thread = os.getpid(), _thread()

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if (os.getpid(), _thread()) != (process, thread):
                return function(*args, **kwargs)
            with self._kind(kind):
                return function(*args, **kwargs)

        return timed


def _thread() -> int:
    import threading

    return threading.get_ident()


def _cpu_seconds() -> float:
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
