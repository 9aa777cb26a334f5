"""`Meeting`: runs members side by side, and does together what they come to ask for.

A member is any call that trains: it needs to know nothing of the others. It runs in a thread of its
own, but never beside another one: a thread goes on until it asks for a sample or an update or is
over, and then the next one does. When all have, what can be done together is, as one tensor program
in the thread that asked for the meeting, and everybody goes on. So what a member does follows from
what it has alone, and whoever fails, fails alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from contextvars import copy_context
from typing import Any, NamedTuple

import torch

from trainables.core.features import using
from trainables.core.learning.members.company import (
    NotTogetherError,
    Program,
    Request,
    company,
    in_company,
)
from trainables.core.learning.members.request import StepRequest, UpdateRequest
from trainables.core.learning.members.together import Members
from trainables.core.logs import logger
from trainables.runtime.members.fragment_request import FragmentRequest
from trainables.runtime.members.joint_fragments import JointFragments

# What does requests of a kind together, made of their owners; the first kind has its turn first.
_PROGRAMS: dict[type, Callable[[list[Any]], Program]] = {
    FragmentRequest: JointFragments,
    StepRequest: Members,
    UpdateRequest: Members,
}
_MOST = 32  # of a program: the rows of more do not fit into a processor's cache
ENOUGH = 12
"""Members that gain little by others more."""
_GROUPS_KEPT = 16  # sets of members whose tensor program is kept for the next time


class Meeting:
    """Where members of one process meet; see the module.

    Args:
        fewest: How many requests are worth a tensor program; fewer are done one by one.

    Attributes:
        num_together: Requests that were done together so far, by the name of their kind.
        num_alone: Requests that were done alone.
        reasons: Why they were done alone, as far as it was for what they are.
    """

    def __init__(self, fewest: int = 2) -> None:
        self._fewest = fewest
        self.num_together: Counter[str] = Counter()
        self.num_alone: Counter[str] = Counter()
        self.reasons: dict[str, set[str]] = {}
        self._served: object | None = None
        # By the ids of the owners, who are kept with it: another one could get the id of one that
        # is gone.
        self._programs: dict[tuple[int, ...], tuple[list[object], Program | None]] = {}

    def run(self, calls: Mapping[Hashable, Callable[[], Any]]) -> dict[Any, Any]:
        """Make calls side by side.

        Called by a member of another meeting, it has that one make them: so a trial of several
        seeds learns with the seeds of others.

        Args:
            calls: What each member does, by its name.

        Returns:
            By name what a call returned, or the exception that it raised.
        """
        if calls and isinstance(member := company(), Member):
            outcomes: dict[Any, Any] = member.ask(_Several(calls))
            return outcomes
        members = {name: Member(call) for name, call in calls.items()}
        try:
            while going := [member for member in members.values() if not member.is_over]:
                self.do_next(going)
        except BaseException:
            for member in members.values():
                member.abandon()
            raise
        return {name: member.outcome for name, member in members.items()}

    @property
    def busy_with(self) -> object | None:
        """What is served now; any thread may ask.

        A member that goes on, the owner of a request that is done alone, or the program of several.
        """
        return getattr(self._served, "busy_with", None) or self._served

    def forget(self, owners: Set[int]) -> None:
        """Let go of what some have done together with others, for they will not be back.

        Args:
            owners: The ids of those whose requests these were, `Member.owners`.
        """
        for key in [key for key in self._programs if not owners.isdisjoint(key)]:
            del self._programs[key]

    def do_next(self, going: list[Member]) -> None:
        """Have members go on until each asks for something or is over; do what is next of it."""
        everyone = [one for member in going for one in member.family()]
        for member in everyone:  # it grows
            if not (member.waits or member.is_over):
                self._served = member
                member.go_on()
                everyone += member.children.values()
        self._served = None
        for member in everyone:
            member.take_outcomes()
        self._do(_first_in_turn([member for member in everyone if member.asks]))

    def _do(self, waiting: list[Member]) -> None:
        """Do what members wait for, each with what can be done with it."""
        groups: dict[Any, list[Member]] = {}
        for member in waiting:
            assert member.request is not None
            kind = type(member.request)
            reason = member.request.why_alone()
            if reason is not None:
                self._note(kind.__name__, reason)
                groups[id(member)] = [member]
            else:
                groups.setdefault((kind, member.request.key()), []).append(member)
        for group in _portions(map(_in_one_order, groups.values())):
            requests = [member.request for member in group if member.request is not None]
            for member, answer in zip(group, self._answers(requests), strict=True):
                member.answer, member.waits = answer, False

    def _answers(self, requests: list[Request]) -> list[Any]:
        """Return what comes of requests, or the exceptions that they raised."""
        kind = type(requests[0]).__name__
        program = self._program(requests)
        if program is not None:
            self._served = program
            try:
                answers = program.run(requests)
            except NotTogetherError as error:
                self._give_up(requests, error)
            else:
                self.num_together[kind] += len(requests)
                return list(answers)
            finally:
                self._served = None
        self.num_alone[kind] += len(requests)
        return [self._alone(request) for request in requests]

    def _alone(self, request: Request) -> Any:
        self._served = request.owner
        try:
            return _outcome(request.alone)
        finally:
            self._served = None

    def _program(self, requests: list[Request]) -> Program | None:
        """Return the tensor program of the requests' owners; None: each is on its own."""
        if len(requests) < self._fewest:
            return None
        owners: list[Any] = [request.owner for request in requests]
        key = tuple(map(id, owners))
        if key not in self._programs:
            while len(self._programs) >= _GROUPS_KEPT:
                del self._programs[next(iter(self._programs))]
            try:
                self._programs[key] = owners, _PROGRAMS[type(requests[0])](owners)
            except NotTogetherError as error:
                self._give_up(requests, error)
        else:  # the one that has not been needed for longest is the first to go
            self._programs[key] = self._programs.pop(key)
        return self._programs[key][1]

    def _give_up(self, requests: list[Request], error: NotTogetherError) -> None:
        self._note(type(requests[0]).__name__, str(error))
        owners: list[object] = [request.owner for request in requests]
        self._programs[tuple(map(id, owners))] = owners, None

    def _note(self, kind: str, reason: str) -> None:
        """Remember why something is done alone, and say so once."""
        known = self.reasons.setdefault(kind, set())
        if reason not in known:
            known.add(reason)
            logger.info("done one after another, %s: %s", kind, reason)


def _in_one_order(group: list[Member]) -> list[Member]:
    """Return members by their owners, in whatever order they asked: a program is of an order."""
    return sorted(group, key=lambda member: id(member.request and member.request.owner))


def _portions(groups: Iterable[list[Member]]) -> Iterator[list[Member]]:
    """Yield groups, large ones as several of about the same size."""
    for group in groups:
        count = -(-len(group) // _MOST)
        size = -(-len(group) // count)
        for first in range(0, len(group), size):
            yield group[first : first + size]


def _first_in_turn(waiting: list[Member]) -> list[Member]:
    """Return the members that are answered now; the others wait for them.

    Who samples while others update is behind them: it goes first, and its update is then theirs. If
    all were answered at once, members that are apart by a single step would stay so. Where those
    that are ahead and those behind are enough each, they stay apart: while the results of one half
    are on their way, the other one computes.
    """
    asking = [[one for one in waiting if type(one.request) is kind] for kind in _PROGRAMS]
    asking = [members for members in asking if members] or [waiting]
    apart = all(len(members) >= ENOUGH for members in asking)
    return asking[-1] if apart else asking[0]


class _AbandonedError(BaseException):
    """Ends the thread of a member whose meeting is over."""


class _Several(NamedTuple):
    """What a member asks for that has calls of its own made beside those of others."""

    calls: Mapping[Hashable, Callable[[], Any]]


class Member:
    """A call in a thread that runs only while `go_on` waits for it.

    Args:
        call: It; made in the context of whoever makes the member.

    Attributes:
        owners: The ids of those whose requests it has made, or its children.
    """

    def __init__(self, call: Callable[[], Any]):
        self._call, self._context = call, copy_context()
        self._thread: threading.Thread | None = None
        self._may_run, self._has_stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._is_abandoned = False
        self.owners: set[int] = set()
        self.request: Request | None = None
        self.children: dict[Hashable, Member] = {}  # who it waits for
        self.answer: Any = None
        self.outcome: Any = None
        self.is_over = False
        self.waits = False  # for what it has asked for

    def go_on(self) -> None:
        """Let the call run until it asks for something or is over."""
        if self._thread is None:
            # PyTorch's number of threads is one of a thread, and a new one has as many as cores.
            num_threads = torch.get_num_threads()
            self._thread = threading.Thread(
                target=self._context.run, args=(self._run, num_threads), daemon=True, name="member"
            )
            self._thread.start()
        self._may_run.release()
        self._has_stopped.acquire()

    @property
    def thread(self) -> int | None:
        """The id of its thread, once it has begun."""
        return self._thread.ident if self._thread is not None else None

    @property
    def asks(self) -> bool:
        """Whether it waits for what a request asks for."""
        return self.request is not None and not self.is_over

    def family(self) -> Iterator[Member]:
        """Yield it, and the members that it waits for."""
        yield self
        for child in self.children.values():
            yield from child.family()

    def take_outcomes(self) -> None:
        """Let it go on, if all that it waits for are over."""
        if self.children and all(child.is_over for child in self.children.values()):
            self.answer = {name: child.outcome for name, child in self.children.items()}
            self.children, self.waits = {}, False

    def fail(self, error: Exception) -> None:
        """End the call where it waits, and have it fail."""
        self.abandon()
        self.outcome, self.is_over = error, True

    def abandon(self) -> None:
        """End the call where it waits."""
        for child in self.children.values():
            child.abandon()
        if self._thread is None or self.is_over:
            return
        self._is_abandoned = True
        self._may_run.release()
        self._thread.join()

    def _run(self, num_threads: int) -> None:
        torch.set_num_threads(num_threads)
        self._may_run.acquire()
        with in_company(self), using("batching"):
            self.outcome = _outcome(self._call)
        self.is_over = True
        self._has_stopped.release()

    def ask(self, request: Request | _Several) -> Any:
        """See `Company`."""
        if self._is_abandoned:  # and cleans up
            raise _AbandonedError
        if isinstance(request, _Several):
            self.children = {name: Member(call) for name, call in request.calls.items()}
            for child in self.children.values():
                child.owners = self.owners
        else:
            self.request = request
            self.owners.add(id(request.owner))
        self.waits = True
        self._has_stopped.release()
        self._may_run.acquire()
        if self._is_abandoned:
            raise _AbandonedError
        self.request, answer = None, self.answer
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the exception that it raises."""
    try:
        return call()
    except BaseException as error:
        return error
