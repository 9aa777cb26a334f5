"""Where the time goes: `pytest --times times.jsonl` notes it, `python -m tests.suite_times` tells.

Each test is a line of JSON in the file: wall-clock seconds, CPU seconds of its process and of the
children that it waited for (workers of Ray are children of Ray's), and seconds by kind. A kind that
begins within another pauses it, so that kinds add up to the wall clock. `--write` writes the tables
into README.md beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainables.core.generated_part import GeneratedPart, row

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
LONGEST = 25  # files, and tests, in the tables


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
        caller = os.getpid(), threading.get_ident()

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if (os.getpid(), threading.get_ident()) != caller:
                return function(*args, **kwargs)
            with self._kind(kind):
                return function(*args, **kwargs)

        return timed


def _cpu_seconds() -> float:
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def tables(file: Path) -> str:
    """Seconds by folder and kind, and the longest files and tests, as Markdown."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    tests = [line for line in lines if line["test"].startswith("tests/")]
    heads = (
        row("Folder", "tests", "seconds", "CPU", *KINDS),
        row("File", "tests", "seconds", "CPU"),
        row("Test", "times", "seconds", "CPU"),
    )
    folders = _sums(tests, _folder)
    rows = [
        [
            row(*sums.cells(name), *sums.kinds())
            for name, sums in sorted(folders.items())
            if sums.tests
        ],
        [row(*sums.cells(f"`{name}`")) for name, sums in _longest(_sums(tests, _file))],
        [row(*sums.cells(f"`{name}`")) for name, sums in _longest(_sums(tests, _function))],
    ]
    everything = _sums(tests, lambda _: "all")["all"]
    rows[0].append(row(*everything.cells("all"), *everything.kinds()))
    return "\n\n".join(
        "\n".join([head, "|---|" + "--:|" * (head.count("|") - 2), *body])
        for head, body in zip(heads, rows, strict=True)
    )


class _Sums:
    """Seconds of several lines.

    Attributes:
        tests: How many tests they are; what is collected is none.
        seconds: By kind, and `cpu`.
    """

    def __init__(self) -> None:
        self.tests = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, line: dict[str, Any]) -> None:
        """Add one line."""
        self.tests += "::" in line["test"]
        for key in {"cpu", *KINDS} & line.keys():
            self.seconds[key] += line[key]

    @property
    def wall(self) -> float:
        """Of all kinds."""
        return sum(self.seconds[kind] for kind in KINDS)

    def cells(self, name: str) -> list[str]:
        """A row's first cells."""
        return [name, str(self.tests), f"{self.wall:.0f}", f"{self.seconds['cpu']:.0f}"]

    def kinds(self) -> list[str]:
        """A cell for each kind."""
        return [f"{self.seconds[kind]:.0f}" for kind in KINDS]


def _sums(lines: list[dict[str, Any]], key: Callable[[str], str]) -> dict[str, _Sums]:
    sums: defaultdict[str, _Sums] = defaultdict(_Sums)
    for line in lines:
        sums[key(line["test"])].add(line)
    return sums


def _longest(sums: dict[str, _Sums]) -> list[tuple[str, _Sums]]:
    return sorted(sums.items(), key=lambda item: -item[1].wall)[:LONGEST]


def _folder(test: str) -> str:
    folders = [part for part in _file(test).split("/") if not part.endswith(".py")]
    return "/".join(folders[:2])


def _file(test: str) -> str:
    return test.partition("::")[0].removeprefix("tests/")


def _function(test: str) -> str:
    return test.partition("[")[0].removeprefix("tests/")


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite_times")
    parser.add_argument("file", nargs="?", type=Path, default=Path("times.jsonl"))
    parser.add_argument("--write", action="store_true", help="write into README.md")
    arguments = parser.parse_args()
    page = Path(__file__).with_name("README.md")
    part = GeneratedPart(page, "times", "tests.suite_times", lambda: tables(arguments.file), 10)
    if arguments.write:
        part.write()
    else:
        print(part.text())


if __name__ == "__main__":
    main()
