"""`Meeting`: runs members side by side, and makes together the updates that they come to.

A member is any call that trains: it needs to know nothing of the others. It runs in a thread of its
own, but never beside another one: a thread goes on until it asks for an update or is over, and then
the next one does. When all have, those updates that can be made together are, as one tensor program
in the thread that asked for the meeting, and everybody goes on. So what a member does follows from
what it has alone, and whoever fails, fails alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from contextvars import copy_context
from typing import Any

import torch

from trainables.core.learning.members.company import in_company
from trainables.core.learning.members.lifted_module import NotLiftedError
from trainables.core.learning.members.request import Request
from trainables.core.learning.members.together import Members
from trainables.core.logs import logger

_GROUPS_KEPT = 8  # sets of members whose tensor program is kept for the next update


class Meeting:
    """Where members of one process meet to update; see the module.

    Attributes:
        num_together: Updates that were made together so far, of all members.
        num_alone: Updates that members made alone.
        reasons: Why updates were made alone, as far as it was for what they are.
    """

    def __init__(self) -> None:
        self.num_together = self.num_alone = 0
        self.reasons: set[str] = set()
        self._programs: dict[tuple[int, ...], Members | None] = {}

    def run(self, calls: Mapping[Hashable, Callable[[], Any]]) -> dict[Any, Any]:
        """Make calls side by side.

        Args:
            calls: What each member does, by its name.

        Returns:
            By name what a call returned, or the exception that it raised.
        """
        members = {name: _Member(call) for name, call in calls.items()}
        try:
            going = list(members.values())
            while going:
                for member in going:
                    member.go_on()
                going = [member for member in going if not member.is_over]
                self._update(going)
        except BaseException:
            for member in members.values():
                member.abandon()
            raise
        return {name: member.outcome for name, member in members.items()}

    def _update(self, waiting: list[_Member]) -> None:
        """Make the updates that members wait for, each with those that can be made with it."""
        groups: dict[Any, list[_Member]] = {}
        for member in waiting:
            assert member.request is not None
            reason = member.request.why_alone()
            if reason is not None:
                self.reasons.add(reason)
                groups[id(member)] = [member]
            else:
                groups.setdefault(member.request.key(), []).append(member)
        for group in groups.values():
            requests = [member.request for member in group if member.request is not None]
            for member, answer in zip(group, self._answers(requests), strict=True):
                member.answer = answer

    def _answers(self, requests: list[Request]) -> list[Any]:
        """Return what updates report, or the exceptions that they raised."""
        program = self._program(requests)
        if program is not None:
            try:
                answers = program.meet(requests)
            except NotLiftedError as error:  # before anything was stepped
                self._give_up(requests, error)
            else:
                self.num_together += len(requests)
                return list(answers)
        self.num_alone += len(requests)
        return [_outcome(request.alone) for request in requests]

    def _program(self, requests: list[Request]) -> Members | None:
        """Return the tensor program of the learners; None: they learn alone."""
        if len(requests) == 1:
            return None
        key = tuple(id(request.learner) for request in requests)
        if key not in self._programs:
            while len(self._programs) >= _GROUPS_KEPT:
                del self._programs[next(iter(self._programs))]
            try:
                self._programs[key] = Members([request.learner for request in requests])
            except NotLiftedError as error:
                self._give_up(requests, error)
        return self._programs[key]

    def _give_up(self, requests: list[Request], error: NotLiftedError) -> None:
        self.reasons.add(str(error))
        logger.warning("%d members learn one after another: %s", len(requests), error)
        self._programs[tuple(id(request.learner) for request in requests)] = None


class _AbandonedError(BaseException):
    """Ends the thread of a member whose meeting is over."""


class _Member:
    """A call in a thread that runs only while `go_on` waits for it."""

    def __init__(self, call: Callable[[], Any]):
        self._call = call
        self._thread: threading.Thread | None = None
        self._may_run, self._has_stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._is_abandoned = False
        self.request: Request | None = None
        self.answer: Any = None
        self.outcome: Any = None
        self.is_over = False

    def go_on(self) -> None:
        """Let the call run until it asks for an update or is over."""
        if self._thread is None:
            # PyTorch's number of threads is one of a thread, and a new one has as many as cores.
            context, num_threads = copy_context(), torch.get_num_threads()
            self._thread = threading.Thread(
                target=context.run, args=(self._run, num_threads), daemon=True, name="member"
            )
            self._thread.start()
        self._may_run.release()
        self._has_stopped.acquire()

    def abandon(self) -> None:
        """End the call where it waits."""
        if self._thread is None or self.is_over:
            return
        self._is_abandoned = True
        self._may_run.release()
        self._thread.join()

    def _run(self, num_threads: int) -> None:
        torch.set_num_threads(num_threads)
        self._may_run.acquire()
        with in_company(self):
            self.outcome = _outcome(self._call)
        self.is_over = True
        self._has_stopped.release()

    def updated(self, request: Request) -> dict[str, Any]:
        """See `Company`."""
        self.request = request
        self._has_stopped.release()
        self._may_run.acquire()
        if self._is_abandoned:
            raise _AbandonedError
        self.request, answer = None, self.answer
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)


def _outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the exception that it raises."""
    try:
        return call()
    except BaseException as error:
        return error
