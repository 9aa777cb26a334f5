"""`ActorGroup` where answers were not taken: over references that are no other process's."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trainables.runtime.actors import group as actor_group
from trainables.runtime.actors import process
from trainables.runtime.actors.group import ActorGroup, ActorHung
from trainables.runtime.actors.process import ActorProcesses

HANGS = object()


class FakeRay:
    """Actors answer at once what they are asked with, or never."""

    now = 0.0

    def __init__(self) -> None:
        self._numbers, self.answers = itertools.count(), dict[int, Any]()
        self.num_waits, self.killed = 0, list[Any]()

    def monotonic(self) -> float:
        return self.now

    def is_initialized(self) -> bool:
        return True

    def start(self, bundle: int) -> Any:
        asked = list[Any]()

        def ask(answer: Any = None) -> int:
            asked.append(answer)
            reference = next(self._numbers)
            self.answers[reference] = HANGS if HANGS in asked else answer
            return reference

        method = SimpleNamespace(remote=ask)
        return SimpleNamespace(build=method, sample=method, call=method)

    def wait(
        self, references: list[int], *, num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[int], list[int]]:
        self.num_waits += 1
        assert self.num_waits < 50, "it waits in a circle"
        ready = [r for r in references if self.answers[r] is not HANGS][:num_returns]
        if not ready:
            assert timeout is not None, "it waits for ever"
            self.now += timeout
        return ready, [r for r in references if r not in ready]

    def get(self, reference: int) -> Any:
        return self.answers[reference]

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


@pytest.fixture
def ray_of(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(actor_group, "ray", fake)
    monkeypatch.setattr(actor_group, "time", fake)
    for starts_ray in ("join_or_start", "get_current_placement_group"):
        monkeypatch.setattr(process, starts_ray, lambda: None)
    monkeypatch.setattr(ActorProcesses, "check_room", lambda *given: None)
    monkeypatch.setattr(ActorProcesses, "start", lambda processes, bundle: fake.start(bundle))
    return fake


@pytest.fixture
def group(ray_of: FakeRay) -> ActorGroup:
    made = ActorGroup(cast("type", object), 2, lambda index, restarts: (), role="worker")
    assert not made.wait_until_built()
    assert made.healthy == [1, 2]
    return made


@pytest.mark.parametrize("asked", [[1, 2], [2]])
def test_a_hang_behind_an_answer_that_was_not_taken_is_noticed(
    group: ActorGroup, ray_of: FakeRay, asked: list[int]
) -> None:
    group.submit(1, "sample", "first", timeout_s=5)
    ray_of.now = 60.0
    group.submit(1, "sample", HANGS, timeout_s=5)
    replies = group.call("call", "state", indices=asked)
    assert replies[-1].value == "state"
    if 1 in asked:
        assert str(replies[0].error) == "worker 1 did not answer sample within 5 s"
    arrived = group.ready(60)  # the first one was not lost
    assert [reply.value for reply in arrived if reply.error is None] == ["first"]


def test_who_is_made_again_does_not_stop_those_that_are_waited_for(
    group: ActorGroup, ray_of: FakeRay
) -> None:
    group.submit(1, "sample", "first", timeout_s=5)
    group.kill(2)
    ray_of.now = 60.0
    group.restore()
    assert not group.wait_until_built()
    assert group.healthy == [1, 2]
    assert [reply.value for reply in group.ready()] == ["first"]


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_failure_does_not_tell_of_the_next_actor(group: ActorGroup, is_taken: bool) -> None:
    group.submit(1, "sample", HANGS, timeout_s=5)
    group.submit(2, "sample", HANGS, timeout_s=6)
    assert [type(r.error) for r in group.call("call", indices=[2])] == [ActorHung]
    assert group.failed == [1, 2]
    failures = group.take_failures() if is_taken else []
    assert all(isinstance(reply.error, ActorHung) for reply in failures)
    assert [r.index for r in failures] == ([1] if is_taken else [])
    assert group.restore() == [1, 2]
    assert not group.wait_until_built()
    assert group.ready() == []
    assert group.healthy == [1, 2]


def test_what_is_forgotten_is_answered_to_nobody(group: ActorGroup, ray_of: FakeRay) -> None:
    group.submit(1, "sample", "unread")
    group.call("call", "state")
    group.submit(1, "sample", "under way")
    group.submit(2, "sample", HANGS, timeout_s=5)
    group.forget()
    assert group.num_in_flight(1) == group.num_in_flight(2) == 0
    (reply,) = group.ready(60)  # who is gone is gone
    assert (reply.index, type(reply.error)) == (2, ActorHung)
    assert [reply.value for reply in group.call("call", "state")] == ["state"]
