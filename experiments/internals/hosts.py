"""`Hosts`: the processes that the trials of a sweep are members of."""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Mapping
from typing import Any

import ray

from trainables.runtime.members.handle import MemberHandle
from trainables.runtime.members.host import Host

_LATE_S = 90.0  # a process that takes longer may wait for a node that is gone
_STARTS = 3  # failed ones in a row that are enough


class Hosts:
    """Processes that start side by side, and are replaced when they die.

    They end with this object at the latest.

    Args:
        count: How many there are.
        resources: What each has, by Ray's names: what a trial asks for.
        places: Trials of one at most.
    """

    def __init__(self, count: int, resources: Mapping[str, float], places: int):
        self.resources, self._places = dict(resources), places
        self._options = {
            "num_cpus": resources["CPU"],
            "num_gpus": resources.get("GPU", 0),
            # A trial trains and is told to stop, at most; and `live` takes one.
            "max_concurrency": 2 * places + 8,
        }
        self._processes: list[_Process | None] = [None] * count
        self._failed_starts = 0
        self._numbers = itertools.count()
        weakref.finalize(self, _end, self._processes)

    def start(self) -> list[Any]:
        """Start those that do not run, or no more.

        Returns:
            For each that was started what resolves when it is there.

        Raises:
            RuntimeError: They die before they are there, again and again.
        """
        started = []
        for index, process in enumerate(self._processes):
            if process is not None and not process.is_over():
                continue
            if process is not None and not process.was_there:
                self._failed_starts += 1
                if self._failed_starts == _STARTS:
                    raise RuntimeError(f"the processes of trials do not start: {process.error()}")
            self._processes[index] = new = _Process(index, self._options, self.resources["CPU"])
            started.append(new.start)
        return started

    def open(self) -> list[int]:
        """Return the numbers of those with a place for a trial.

        None as long as some are about to be there: trials would all go to the others.
        """
        there = [i for i, process in enumerate(self._processes) if process and process.is_there()]
        for process in self._processes:
            if process is None or process.is_over():  # another one is about to be started
                return []
            if not (process.was_there or process.is_late()):
                return []
        if there:
            self._failed_starts = 0
        return [index for index in there if len(self._member_names(index)) < self._places]

    def _member_names(self, index: int) -> set[str]:
        process = self._processes[index]
        return process.members if process is not None else set()

    def member(self, trainable: Any, kwargs: dict[str, Any]) -> MemberHandle:
        """Have a trial made in the process with the fewest; one must be open.

        Args:
            trainable: Its class; one that has `parallel` processes may use as many.
            kwargs: What the class is made with.
        """
        by_load = sorted(self.open(), key=lambda index: len(self._member_names(index)))
        # In one order for all: a trial may wait for its members in hosts that come after its own.
        used = sorted(by_load[: getattr(trainable, "parallel", 1)])
        name = f"member_{next(self._numbers)}"
        for index in used:
            self._member_names(index).add(name)
        host, *peers = [process.host for i in used if (process := self._processes[i]) is not None]
        return MemberHandle.make(host, name, trainable, kwargs, *peers)

    def left(self, name: str) -> None:
        """Note that a trial is gone."""
        for index in range(len(self._processes)):
            self._member_names(index).discard(name)

    def end(self) -> None:
        """End all processes; `start` starts others."""
        _end(self._processes)
        self._processes[:] = [None] * len(self._processes)


class _Process:
    """A host's process.

    Attributes:
        host: The handle of its actor.
        members: The names of its trials.
        start: Resolves when it is there.
        was_there: Whether it has been seen to be.
    """

    def __init__(self, number: int, options: Mapping[str, Any], cpus: float):
        # As many threads as a process computes with that Ray gives as many CPUs.
        actor: Any = ray.remote(Host).options(**options)
        self.host = actor.remote(number, max(1, int(cpus)))
        self.members: set[str] = set()
        self.start, self._life = self.host.__ray_ready__.remote(), self.host.live.remote()
        self._since, self.was_there = time.monotonic(), False

    def is_there(self) -> bool:
        """Tell whether it has started, and not ended."""
        is_there = _is_resolved(self.start) and not self.is_over()
        self.was_there |= is_there
        return is_there

    def is_late(self) -> bool:
        return time.monotonic() - self._since > _LATE_S

    def is_over(self) -> bool:
        return _is_resolved(self._life)

    def error(self) -> Exception | None:
        """Return what ended it."""
        try:
            ray.get(self._life)
        except Exception as error:
            return error
        return None


def _is_resolved(future: Any) -> bool:
    return bool(ray.wait([future], timeout=0)[0])


def _end(processes: list[_Process | None]) -> None:
    if ray.is_initialized():
        for process in processes:
            if process is not None:
                ray.kill(process.host)
