"""`ActorGroup`: Ray actors of one role, each of which may die, hang, and be made again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import ActorHandleNotFoundError, RayError, RayTaskError

from trainables.runtime.actors.process import ActorOptions, ActorProcesses

BUILD = "build"


class ActorFailure(RuntimeError):
    """An actor is gone. What it was asked for will not come."""


class ActorDied(ActorFailure):
    """An actor's process, or its node, has ended."""


class ActorHung(ActorFailure):
    """An actor did not answer in time, and was ended."""


@dataclass(frozen=True)
class Reply:
    """What an actor answered.

    Attributes:
        index: The actor, from 1.
        method: What it was asked.
        value: What the method returned; None if there is an error.
        error: `ActorFailure` if the actor is gone, else what its method raised: the exception
            itself, with a note of where it was raised.
    """

    index: int
    method: str
    value: Any = None
    error: Exception | None = None


@dataclass(eq=False)
class _Request:
    method: str
    references: list[Any]
    timeout_s: float | None
    is_wanted: bool = True


@dataclass(eq=False)
class _Member:
    """One actor; `actor` is None while there is none."""

    actor: Any = None
    requests: deque[_Request] = field(default_factory=deque)
    owes_since: float = 0.0  # when it began with the first of its requests
    is_built: bool = False
    num_restarts: int = 0


class ActorGroup:
    """Actors of one role in the trial's bundles, with indices from 1.

    An actor answers its requests one after another, in order. One that dies, or does not answer in
    time, fails: it stays away until `restore` makes another one in the same bundle, under the
    same index. What a method raises is an answer, and the actor lives on.

    Args:
        actor_class: The class, made without arguments; then its method `build` is called.
        count: Number of actors.
        arguments: Gives those of `build`, for an index and the number of its restarts so far.
        role: What they are, in messages.
        options: What each process is started with.
        first_bundle: The bundle of actor 1 if this process runs in a placement group; the others
            have those that follow.
        build_timeout_s: How long an actor may take to start and to be built; None: for ever.

    Raises:
        ConfigError: if they do not fit; they would wait for ever, without a word.
    """

    def __init__(
        self,
        actor_class: type,
        count: int,
        arguments: Callable[[int, int], tuple[Any, ...]],
        *,
        role: str,
        options: ActorOptions | None = None,
        first_bundle: int = 1,
        build_timeout_s: float | None = None,
    ):
        self._arguments, self._build_timeout_s = arguments, build_timeout_s
        self._role = role
        self._processes = ActorProcesses(actor_class, options or ActorOptions())
        self._processes.check_room(role, count, first_bundle)
        self._first_bundle = first_bundle
        self._unread: list[Reply] = []  # those that came while others were waited for
        self._members = {index: _Member() for index in range(1, count + 1)}
        for index in self._members:
            self._launch(index)

    def __len__(self) -> int:
        return len(self._members)

    # ------------------------------------------------------------------ health

    @property
    def healthy(self) -> list[int]:
        """Actors that are built and have not failed."""
        return [index for index, member in self._members.items() if member.is_built]

    @property
    def starting(self) -> list[int]:
        """Actors that are being started or built."""
        return [i for i, m in self._members.items() if m.actor is not None and not m.is_built]

    @property
    def failed(self) -> list[int]:
        """Actors that are gone."""
        return [index for index, member in self._members.items() if member.actor is None]

    def restarts(self, index: int) -> int:
        """Return how often an actor was made again."""
        return self._members[index].num_restarts

    def restore(self) -> list[int]:
        """Begin to make the failed actors again; return which. They are healthy once built."""
        failed = self.failed
        for index in failed:
            self._members[index].num_restarts += 1
            self._launch(index)
        return failed

    def rebuild(self, arguments: Callable[[int, int], tuple[Any, ...]]) -> None:
        """Call `build` with other arguments, in the same processes; restarts count from 0.

        Answers that have not been taken are dropped.
        """
        self._arguments, self._unread = arguments, []
        for index, member in self._members.items():
            member.num_restarts = 0
            if member.actor is None:
                self._launch(index)
                continue
            member.requests.clear()
            member.is_built = False
            self._request(index, BUILD, arguments(index, 0))

    def wait_until_built(
        self, timeout_s: float | None = None, *, for_all: bool = True
    ) -> list[Reply]:
        """Wait for actors that are being built: all, or until one of the group is healthy.

        Returns:
            The answers of those whose `build` failed; they have failed.
        """
        until = _deadline(timeout_s)
        replies: list[Reply] = []
        while self.starting and (for_all or not self.healthy):
            for reply in self._round(self._waiting(), until):
                (replies if reply.method == BUILD else self._unread).append(reply)
            if _remaining(until) == 0:
                break
        return replies

    def take_failures(self) -> list[Reply]:
        """Return the errors that `ready` has yet to give: to be seen to before `restore`."""
        failures = [reply for reply in self._unread if reply.error is not None]
        self._unread = [reply for reply in self._unread if reply.error is None]
        return failures

    def kill(self, index: int) -> None:
        """End an actor's process at once; it has failed."""
        member = self._members[index]
        member.requests.clear()
        member.is_built = False
        actor, member.actor = member.actor, None
        if actor is not None and ray.is_initialized():
            with suppress(ActorHandleNotFoundError):  # of a Ray that was shut down
                ray.kill(actor)

    def stop(self) -> None:
        """End all processes."""
        for index in self._members:
            self.kill(index)

    # ------------------------------------------------------------------ requests

    def submit(
        self,
        index: int,
        method: str,
        *arguments: Any,
        num_returns: int = 1,
        timeout_s: float | None = None,
    ) -> None:
        """Ask a healthy actor; `ready` gives the answer.

        Args:
            index: The actor.
            method: The name of a method of the actor's class.
            arguments: The arguments of the method; Ray references are resolved.
            num_returns: 1 or 2. With 2, the method returns a pair whose second half stays in the
                object store: the reply's value is (first, reference to second).
            timeout_s: How long the actor may take, from when it has answered what came before.
        """
        self._request(index, method, arguments, num_returns, timeout_s)

    def num_in_flight(self, index: int) -> int:
        """Return the requests of an actor whose answers have not been taken."""
        unread = sum(reply.index == index for reply in self._unread)
        return unread + sum(request.is_wanted for request in self._members[index].requests)

    def forget(self) -> None:
        """Drop the answers that have not been taken, and those that are still to come.

        Not those that tell of an actor that is gone.
        """
        self._unread = [
            reply
            for reply in self._unread
            if reply.error is not None and self._members[reply.index].actor is None
        ]
        for member in self._members.values():
            for request in member.requests:
                request.is_wanted = request.method == BUILD

    def ready(self, timeout_s: float | None = 0.0) -> list[Reply]:
        """Return answers to `submit` that have arrived, and failures, each once.

        An actor that fails gives one reply, whatever it was asked for. It also returns, with
        nothing, when an actor has been built.

        Args:
            timeout_s: How long to wait for the first; None: as long as it takes.
        """
        until = _deadline(timeout_s)
        replies, self._unread = self._unread, []
        num_healthy = len(self.healthy)
        while not replies and len(self.healthy) <= num_healthy and (waiting := self._waiting()):
            replies = self._round(waiting, until)
            if _remaining(until) == 0:
                break
        while (behind := self._waiting()) and (more := self._round(behind, time.monotonic())):
            replies += more
        return replies

    def call(
        self,
        method: str,
        *arguments: Any,
        indices: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[Reply]:
        """Ask healthy actors the same and wait for all answers; in order of their index."""
        asked = self.healthy if indices is None else indices
        return self.call_each(method, dict.fromkeys(asked, arguments), timeout_s=timeout_s)

    def call_each(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        *,
        timeout_s: float | None = None,
    ) -> list[Reply]:
        """Do as `call` with arguments for each actor, by index."""
        requests = {
            index: self._request(index, method, given, timeout_s=timeout_s)
            for index, given in sorted(arguments.items())
        }
        replies: dict[int, Reply] = {}
        while len(replies) < len(requests):
            # What is in front of them is taken in, too: only then is it known who owes an answer.
            mine = {
                request.references[0]: (index, request)
                for index, request in requests.items()
                if index not in replies
            }
            for index, request, reply in self._arrived(self._waiting() | mine, None):
                is_lost = self._members[index].actor is None
                if index in requests and (request is requests[index] or is_lost):
                    replies[index] = reply
                else:
                    self._unread.append(reply)
        return [replies[index] for index in requests]

    # ------------------------------------------------------------------ inside

    def _launch(self, index: int) -> None:
        member = self._members[index]
        self._unread = [reply for reply in self._unread if reply.index != index]
        member.actor = self._processes.start(self._first_bundle + index - 1)
        self._request(index, BUILD, self._arguments(index, member.num_restarts))

    def _request(
        self,
        index: int,
        method: str,
        arguments: tuple[Any, ...],
        num_returns: int = 1,
        timeout_s: float | None = None,
    ) -> _Request:
        member = self._members[index]
        if member.actor is None:
            raise ActorDied(f"{self._role} {index} has failed before")
        ask = getattr(member.actor, method)
        if num_returns == 1:
            references = [ask.remote(*arguments)]
        else:
            references = ask.options(num_returns=num_returns).remote(*arguments)
        timeout = self._build_timeout_s if method == BUILD else timeout_s
        request = _Request(method, references, timeout)
        if not member.requests:
            member.owes_since = time.monotonic()
        member.requests.append(request)
        return request

    def _waiting(self) -> dict[Any, tuple[int, _Request]]:
        """Return actor and first request of each reference that is waited for.

        Not those behind them: the answers of one actor may arrive in another order.
        """
        first = {i: member.requests[0] for i, member in self._members.items() if member.requests}
        return {request.references[0]: (index, request) for index, request in first.items()}

    def _round(self, waiting: dict[Any, tuple[int, _Request]], until: float | None) -> list[Reply]:
        """Return the replies of `_arrived`."""
        return [reply for _, _, reply in self._arrived(waiting, until)]

    def _arrived(
        self, waiting: dict[Any, tuple[int, _Request]], until: float | None
    ) -> list[tuple[int, _Request, Reply]]:
        """Wait once, for the first of some requests; what has arrived, and who is overdue."""
        received = [
            (index, request, reply)
            for index, request in self._done(waiting, until)
            if (reply := self._received(index, request)) is not None
        ]
        return received + self._overdue()

    def _done(
        self, waiting: dict[Any, tuple[int, _Request]], until: float | None
    ) -> list[tuple[int, _Request]]:
        """Return requests that are answered; wait for one until then, or until one is overdue."""
        due = [at for member in self._members.values() if (at := _due(member)) is not None]
        limit = min([*due, *([] if until is None else [until])], default=None)
        done, others = ray.wait(list(waiting), num_returns=1, timeout=_remaining(limit))
        if done and others:  # those that came at the same time
            done += ray.wait(others, num_returns=len(others), timeout=0)[0]
        return [waiting[reference] for reference in done]

    def _received(self, index: int, request: _Request) -> Reply | None:
        """Return the reply to an answered request; None if its actor was built or has failed since.

        Nor is there one to a request that is not wanted any more, unless its actor is gone.
        """
        member = self._members[index]
        if request not in member.requests:
            return None
        reply = self._answer(index, request)
        if request.method != BUILD:
            return reply if request.is_wanted or member.actor is None else None
        if reply.error is None:
            member.is_built = True
            return None
        self.kill(index)  # what could not be built is of no use
        return reply

    def _overdue(self) -> list[tuple[int, _Request, Reply]]:
        """End the actors that have not answered in time."""
        now = time.monotonic()
        late = [i for i, m in self._members.items() if (at := _due(m)) is not None and at <= now]
        ended = []
        for index in late:
            request = self._members[index].requests[0]
            if not ray.wait(request.references[:1], timeout=0)[0]:
                self.kill(index)
                error = ActorHung(
                    f"{self._role} {index} did not answer {request.method} within "
                    f"{request.timeout_s:g} s"
                )
                ended.append((index, request, Reply(index, request.method, error=error)))
        return ended

    def _answer(self, index: int, request: _Request) -> Reply:
        """Return the reply to an answered request."""
        member = self._members[index]
        first, *others = request.references
        value, error = None, None
        try:
            value = ray.get(first)
        except RayTaskError as raised:
            error = self._raised(index, raised)
        except RayError as lost:
            self.kill(index)
            reason = " ".join(str(lost).partition("Some common causes")[0].split())
            died = ActorDied(f"{self._role} {index} died in {request.method}: {reason}")
            return Reply(index, request.method, error=died)
        member.requests.remove(request)
        member.owes_since = time.monotonic()
        return Reply(index, request.method, (value, *others) if others else value, error)

    def _raised(self, index: int, error: RayTaskError) -> Exception:
        """Return what an actor's method raised, its own exception, with where it comes from."""
        cause = error.cause
        frames = [line for line in str(error).splitlines() if line.startswith("  ")]
        if not isinstance(cause, Exception):
            return error
        cause.add_note("\n".join([f"in {self._role} {index}, at", *frames]))
        return cause


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _remaining(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _due(member: _Member) -> float | None:
    """Return when an actor must have answered its first request; None if it has for ever."""
    if not member.requests or member.requests[0].timeout_s is None:
        return None
    return member.owes_since + member.requests[0].timeout_s
