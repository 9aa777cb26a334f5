"""`Host`: trials of one process that come and go, and are trained together while they are there.

As a serving system batches requests that arrive at any time (continuous batching), a host batches
training iterations: each call to train joins those that are under way at its next sample or update,
and leaves with its result while others go on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from ray import tune

from trainables.core.features import using
from trainables.runtime.members.meeting import ENOUGH, Meeting, Member

HOST = "host"
"""Key of a result: which of a sweep's processes trained the trial."""
_TRAIN, _STOP = "train", "stop"
# How long those that are ready wait for trials that are between two iterations, as a share of what
# the last thing that was done together took, and at least.
_PATIENCE, _LEAST_PATIENCE_S = 0.5, 0.02
_NEAR_S = 1.0  # who has been between two iterations for longer is paused, saved or over
_LINES = 3  # of a stack that is shown


@dataclass(frozen=True)
class Peers:
    """Other hosts that a trial may use.

    Attributes:
        name: Of the trial; names of its members there begin with it.
        hosts: Their handles.
    """

    name: str
    hosts: tuple[Any, ...]


_PEERS: ContextVar[Peers | None] = ContextVar("peers", default=None)


def peers() -> Peers | None:
    """Return the other hosts that the trial that is being made may use; None outside a host."""
    return _PEERS.get()


@contextmanager
def _with_peers(name: str, hosts: tuple[Any, ...]) -> Iterator[None]:
    token = _PEERS.set(Peers(name, hosts))
    try:
        yield
    finally:
        _PEERS.reset(token)


class Host:
    """Holds trials by name, for as many callers at a time as it has; one of them computes.

    Args:
        number: Which of a sweep's hosts this is, from 0; in the results of its trials as `host`.
        num_threads: Threads that PyTorch computes with.
    """

    def __init__(self, number: int = 0, num_threads: int = 1):
        self._number = number
        # Tune would change into each trial's folder, and the folder is one for the whole process.
        os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"
        torch.set_num_threads(num_threads)
        self._num_threads = num_threads
        self._trials: dict[str, Any] = {}
        self._meeting = Meeting()
        # Whoever computes holds it: the loop below, or a caller that does something else.
        self._turn = threading.Lock()
        self._work: _Work | None = None
        self._longest = 0.0
        self._news = threading.Condition()
        self._arrived: list[_Iteration] = []
        self._under_way: dict[str, _Iteration] = {}
        self._owners: dict[str, set[int]] = {}  # of what each trial has asked for
        self._between: dict[str, float] = {}  # trials that train no iteration, since when
        self._loop = threading.Thread(target=self._train, daemon=True, name="host")
        self._loop.start()

    # ------------------------------------------------------------------ for callers

    def make(
        self, name: str, trainable: Callable[..., Any], arguments: dict[str, Any], *peers: Any
    ) -> None:
        """Make a trial.

        Args:
            name: What it is called here.
            trainable: Its class.
            arguments: What the class is made with.
            peers: Handles of other hosts in which it may make members of its own, see `peers`.
        """
        with self._computing(name), _with_peers(name, peers):
            self._trials[name] = trainable(**arguments)
        with self._news:
            self._between[name] = time.monotonic()
            self._news.notify_all()

    def call(
        self,
        name: str,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        _after: None = None,
    ) -> Any:
        """Call a method of a trial; an iteration is trained with those of others.

        Args:
            name: Of the trial.
            method: Of its methods.
            args: What it is called with.
            kwargs: The same, by name.
            _after: What has to be over first, which Ray waits for.
        """
        if method == _STOP:
            return self.end(name)
        trial = self._trials[name]
        call = getattr(trial, method)
        if method == _TRAIN:
            result = self._iterate(name, lambda: call(*args, **kwargs))
            return {**result, HOST: self._number} if isinstance(trial, tune.Trainable) else result
        with self._computing(name):
            return call(*args, **kwargs)

    def end(self, name: str, _after: None = None) -> None:
        """Stop a trial and forget it; an iteration that is under way is over, without a result.

        Args:
            name: Of the trial.
            _after: See `call`.
        """
        with self._news:
            self._between.pop(name, None)
            self._news.notify_all()
        with self._computing(name):
            if (iteration := self._under_way.pop(name, None)) is not None:
                iteration.member.fail(_EndedError())
                iteration.is_done.set()
            trial = self._trials.pop(name, None)
            if trial is not None:
                trial.stop()
            self._meeting.forget(self._owners.pop(name, set()))
        with self._news:
            self._between.pop(name, None)  # its iteration may have ended since

    def live(self) -> None:
        """Return never: whoever waits for it learns of the end of the process."""
        threading.Event().wait()

    def counts(self) -> dict[str, Any]:
        """Return what was done together and alone, and why; see `Meeting`."""
        meeting = self._meeting
        return {
            "together": dict(meeting.num_together),
            "alone": dict(meeting.num_alone),
            "reasons": {kind: sorted(reasons) for kind, reasons in meeting.reasons.items()},
            "pid": os.getpid(),
        }

    def work(self) -> dict[str, Any]:
        """Return what this process computes now, for whoever waits for it.

        Returns:
            `pid`; `seconds` since it began, 0 if it waits itself; `longest`, that anything took
            before; `name`, of the trial whose own it is, None if it is of several; and `where` it
            is, the innermost lines of Python.
        """
        found = {"pid": os.getpid(), "seconds": 0.0, "longest": self._longest}
        work = self._work
        if work is None:
            return {**found, "name": None, "where": []}
        name, thread, busy = work.name, work.thread, self._meeting.busy_with
        if isinstance(busy, Member):
            thread = busy.thread or thread
        if busy is not None:
            name = next((n for n, ids in list(self._owners.items()) if id(busy) in ids), name)
            name = next((n for n, i in list(self._under_way.items()) if i.has(busy)), name)
        frame = sys._current_frames().get(thread)
        lines = traceback.extract_stack(frame)[-_LINES:] if frame is not None else []
        where = [f"{line.filename}:{line.lineno} ({line.name})" for line in lines]
        seconds = time.monotonic() - work.since
        return {**found, "seconds": seconds, "name": name, "where": where}

    @contextmanager
    def _computing(self, name: str | None = None) -> Iterator[None]:
        """Compute while nobody else does.

        Args:
            name: Of the trial that it is for; None: those that train.

        Raises:
            RuntimeError: In place of what is no `Exception`: Ray takes SystemExit as the end of all
                trials, and KeyboardInterrupt as a call that nobody waits for any more.
        """
        with self._turn:
            torch.set_num_threads(self._num_threads)
            work = self._work = _Work(name, threading.get_ident(), time.monotonic())
            try:
                with using("batching"):
                    yield
            except Exception:
                raise
            except BaseException as error:
                raise _failed(error) from error
            finally:
                self._work = None
                self._longest = max(self._longest, time.monotonic() - work.since)

    def _iterate(self, name: str, call: Callable[[], Any]) -> Any:
        member = Member(call)
        member.owners = self._owners.setdefault(name, set())
        iteration = _Iteration(name, member)
        with self._news:
            self._between.pop(name, None)
            self._under_way[name] = iteration
            self._arrived.append(iteration)
            self._news.notify_all()
        iteration.is_done.wait()
        outcome = iteration.member.outcome
        if isinstance(outcome, _EndedError):
            return {}
        with self._news:
            self._under_way.pop(name, None)
            if name in self._trials:
                self._between[name] = time.monotonic()
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, BaseException):
            raise _failed(outcome) from outcome
        return outcome

    # ------------------------------------------------------------------ the loop

    def _train(self) -> None:
        """Train what arrives, for ever."""
        torch.set_num_threads(self._num_threads)
        going: list[_Iteration] = []
        took = 0.0
        while True:
            going += self._arrivals(going, took)
            start = time.monotonic()
            try:
                with self._computing():
                    self._meeting.do_next([one.member for one in going if not one.member.is_over])
            except Exception as error:  # nobody is to wait for ever
                for one in going:
                    if not one.member.is_over:
                        one.member.fail(error)
            took = time.monotonic() - start
            going = _that_go_on(going)

    def _arrivals(self, going: list[_Iteration], took: float) -> list[_Iteration]:
        """Return iterations that begin; wait for the first, and a little for those that may come.

        Args:
            going: Those that are under way.
            took: Seconds of what was done last.
        """
        with self._news:
            while not (going or self._arrived):
                self._news.wait()
            until = time.monotonic() + max(_LEAST_PATIENCE_S, _PATIENCE * took)
            while self._expects_more(len(going)) and (left := until - time.monotonic()) > 0:
                self._news.wait(left)
            arrived, self._arrived = self._arrived, []
            return arrived

    def _expects_more(self, num_going: int) -> bool:
        """Tell whether one is worth waiting for, and near: it has just ended an iteration.

        Args:
            num_going: Iterations that are under way.
        """
        if num_going + len(self._arrived) >= ENOUGH:
            return False
        now = time.monotonic()
        return any(now - since < _NEAR_S for since in self._between.values())


def _that_go_on(iterations: list[_Iteration]) -> list[_Iteration]:
    """Return the iterations that are not over; who waits for one that is, waits no longer.

    A function of its own: a variable of the loop would hold the last trial for ever.
    """
    for one in iterations:
        if one.member.is_over:
            one.is_done.set()
    return [one for one in iterations if not one.member.is_over]


def _failed(error: BaseException) -> RuntimeError:
    did = f"raised {type(error).__name__}"
    if isinstance(error, SystemExit):
        did = f"called sys.exit({error.code!r})"
    return RuntimeError(f"the trial {did}, in a process of several trials")


class _Work(NamedTuple):
    """What is computed: for which trial, if it is for one, in which thread, and since when."""

    name: str | None
    thread: int
    since: float


class _EndedError(Exception):
    """What comes of an iteration whose trial was stopped: nobody asks for it."""


class _Iteration:
    """An iteration of a trial, and whether it is over."""

    def __init__(self, name: str, member: Member):
        self.name, self.member = name, member
        self.is_done = threading.Event()

    def has(self, member: object) -> bool:
        """Tell whether a member takes part in it."""
        return any(one is member for one in self.member.family())
