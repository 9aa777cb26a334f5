"""`ActorGroup`: asking, asking without waiting, and actors that die, hang, raise or never come."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from fake_actors import Unbuildable, Worker
from ray.exceptions import ActorHandleNotFoundError
from tiers import rarely

from trainables.core.errors import ConfigError
from trainables.runtime.actors.group import ActorDied, ActorGroup, ActorHung, Reply
from trainables.runtime.actors.process import ActorOptions

pytestmark = pytest.mark.usefixtures("ray_here")


def plain(index: int, num_restarts: int) -> tuple[Any, ...]:
    return index, num_restarts


@pytest.fixture(scope="module")
def processes(ray_here: None) -> Iterator[ActorGroup]:
    made = ActorGroup(
        Worker,
        2,
        plain,
        role="worker",
        options=ActorOptions(num_cpus=0.5, env_vars={"COLOUR": "green"}),
        build_timeout_s=300,
    )
    yield made
    made.stop()


@pytest.fixture
def group(processes: ActorGroup) -> ActorGroup:
    """Both actors healthy and idle, whatever the test before did to them."""
    processes.restore()
    processes.rebuild(plain)
    assert not processes.wait_until_built(300)
    return processes


def replies_of(group: ActorGroup, count: int) -> list[Reply]:
    """So many replies, in the order in which they come."""
    replies: list[Reply] = []
    deadline = time.monotonic() + 240
    while len(replies) < count:
        assert time.monotonic() < deadline, replies
        replies += group.ready(1.0)
    return replies


def test_calls_go_to_all_to_some_and_with_arguments_of_their_own(group: ActorGroup) -> None:
    assert group.healthy == [1, 2]
    assert group.call("add", 1, 1) == [Reply(1, "add", 2), Reply(2, "add", 2)]
    assert [r.value for r in group.call("add", 2, 3, indices=[2])] == [5]
    each = group.call_each("add", {2: (1, 1), 1: (5, 5)})
    assert [(r.index, r.value) for r in each] == [(1, 10), (2, 2)]
    assert [r.value for r in group.call("variable", "COLOUR")] == ["green", "green"]
    # Others than those that it was made for may be built in the same processes.
    pids = [r.value for r in group.call("pid")]
    group.rebuild(lambda index, restarts: (index + 10, restarts))
    assert not group.wait_until_built(60)
    assert [r.value for r in group.call("who")] == [
        (11, group.restarts(1)),
        (12, group.restarts(2)),
    ]
    assert [r.value for r in group.call("pid")] == pids


def test_requests_in_flight_are_answered_once_each_and_in_order(group: ActorGroup) -> None:
    for index, number in ((1, 10), (1, 11), (2, 20), (1, 12)):
        group.submit(index, "add", number, 0)
    assert (group.num_in_flight(1), group.num_in_flight(2)) == (3, 1)
    # A call waits behind them, and takes none of their answers.
    assert [r.value for r in group.call("add", 4, 4)] == [8, 8]
    replies = replies_of(group, 4)
    assert [r.value for r in replies if r.index == 1] == [10, 11, 12]
    assert [r.value for r in replies if r.index == 2] == [20]
    assert (group.num_in_flight(1), group.num_in_flight(2)) == (0, 0)
    assert group.ready(None) == []  # nothing to wait for
    # Whoever is ready first comes first.
    group.submit(1, "sleep", 1)
    group.submit(2, "sleep", 0)
    assert [r.value for r in replies_of(group, 2)] == [2, 1]


def test_answers_that_arrive_in_another_order_are_given_in_that_of_the_requests(
    group: ActorGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = ray.wait

    def latest_first(references: list[Any], *, num_returns: int, timeout: float | None) -> Any:
        return wait(references[::-1], num_returns=num_returns, timeout=timeout)

    for number in (10, 11, 12):
        group.submit(1, "add", number, 0)
    assert [r.value for r in group.call("add", 4, 4)] == [8, 8]  # so all of them are done
    monkeypatch.setattr(ray, "wait", latest_first)
    assert [r.value for r in group.ready(60)] == [10, 11, 12]


def test_the_second_half_of_a_pair_stays_where_it_is(group: ActorGroup) -> None:
    group.submit(2, "pair", 3, num_returns=2)
    (reply,) = replies_of(group, 1)
    first, reference = reply.value
    assert (first, ray.get(reference)) == (2, [0, 1, 2])


def test_what_a_method_raises_is_an_answer_with_its_own_message(group: ActorGroup) -> None:
    """Its type, its message once, and where it was raised."""
    good, bad = group.call_each("sleep", {1: (0,), 2: ("no number",)})
    assert (good.value, type(bad.error)) == (1, TypeError)
    (reply,) = group.call("raise_value_error", indices=[2])
    assert type(reply.error) is ValueError
    assert str(reply.error) == "seven is not prime enough"
    (note,) = reply.error.__notes__
    assert note.startswith("in worker 2, at")
    assert "in raise_value_error" in note
    assert group.healthy == [1, 2]
    group.submit(1, "raise_value_error")
    group.submit(1, "who")
    first, second = replies_of(group, 2)
    assert type(first.error) is ValueError
    assert second.value[0] == 1


def test_a_killed_actor_fails_once_and_is_made_again_under_its_index(group: ActorGroup) -> None:
    pids, before = [r.value for r in group.call("pid")], group.restarts(1)
    group.submit(1, "sleep", 60)
    group.submit(1, "who")
    os.kill(pids[0], signal.SIGKILL)
    (reply,) = replies_of(group, 1)
    assert isinstance(reply.error, ActorDied)
    assert "worker 1 died" in str(reply.error)
    assert (group.healthy, group.failed, group.num_in_flight(1)) == ([2], [1], 0)
    assert group.ready(0.2) == []
    with pytest.raises(ActorDied):
        group.submit(1, "who")
    assert [r.index for r in group.call("who")] == [2]

    assert group.restore() == [1]
    assert (group.starting, group.failed) == ([1], [])
    assert [r.index for r in group.call("who")] == [2]  # the others go on meanwhile
    assert group.wait_until_built(300) == []
    assert [r.value for r in group.call("who")] == [(1, before + 1), (2, group.restarts(2))]
    assert group.restarts(1) == before + 1

    # A call tells it, too, and a dead one is none of those that are asked.
    os.kill(pids[1], signal.SIGKILL)
    one, two = group.call("sleep", 1.0)
    assert one.value == 1
    assert isinstance(two.error, ActorDied)


@pytest.mark.parametrize("method", rarely(["spin", "sleep"], ["spin"]))
def test_an_actor_that_does_not_answer_is_ended(group: ActorGroup, method: str) -> None:
    arguments = (600,) if method == "sleep" else ()
    group.submit(1, method, *arguments, timeout_s=1)
    group.submit(1, "who", timeout_s=1)
    group.submit(2, "sleep", 2, timeout_s=60)
    one, two = replies_of(group, 2)
    assert isinstance(one.error, ActorHung)
    assert str(one.error) == f"worker 1 did not answer {method} within 1 s"
    assert (two.value, group.healthy) == (2, [2])
    group.restore()
    assert not group.wait_until_built(300)
    # In a call as well; the time of a request begins when those before it are answered.
    group.submit(2, "sleep", 2)
    one, two = group.call_each(method, {1: arguments}, timeout_s=1) + group.call(
        "sleep", 0, indices=[2], timeout_s=1.5
    )
    assert isinstance(one.error, ActorHung)
    assert two.value == 2


def test_a_hang_behind_an_answer_that_was_not_taken_is_noticed(group: ActorGroup) -> None:
    group.submit(1, "add", 1, 1, timeout_s=1)
    group.submit(1, "sleep", 600, timeout_s=1)
    group.submit(2, "add", 2, 2)
    one, two = group.call("who")
    assert str(one.error) == "worker 1 did not answer sleep within 1 s"
    assert two.value[0] == 2
    assert group.num_in_flight(2) == 1  # as its answer was not taken
    assert sorted(r.value for r in replies_of(group, 2)) == [2, 4]


def test_what_is_forgotten_is_answered_to_nobody(group: ActorGroup) -> None:
    group.submit(1, "add", 1, 1)
    group.call("who")
    group.submit(1, "sleep", 0.5)
    group.submit(1, "raise_value_error")
    (pid,) = (r.value for r in group.call("pid", indices=[2]))
    group.submit(2, "sleep", 60)
    group.forget()
    assert group.num_in_flight(1) == 0
    assert group.call("add", 4, 4, indices=[1])[0].value == 8
    os.kill(pid, signal.SIGKILL)  # but who is gone is gone
    (reply,) = group.ready(60)
    assert (reply.index, type(reply.error)) == (2, ActorDied)


def test_an_actor_of_a_ray_that_was_shut_down_is_none(
    group: ActorGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(actor: Any) -> None:
        raise ActorHandleNotFoundError("of another session")

    with monkeypatch.context() as patch:
        patch.setattr(ray, "kill", refuse)
        group.kill(1)
    assert group.failed == [1]


def test_one_that_cannot_be_built_says_why_and_leaves_nothing_behind(group: ActorGroup) -> None:
    group.rebuild(lambda index, restarts: (index, restarts, 2))
    (reply,) = group.wait_until_built(300)
    assert (reply.index, type(reply.error)) == (2, Unbuildable)
    assert str(reply.error) == "there is no number 2"
    assert (group.healthy, group.failed) == ([1], [2])
    group.stop()
    deadline = time.monotonic() + 240
    while ray.available_resources().get("CPU") != 2:
        assert time.monotonic() < deadline, ray.available_resources()
        time.sleep(0.1)


def test_more_actors_than_the_cluster_holds_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"needs 3 CPU; the nodes have \(2 CPU\).*3 workers of 1 CPU"
    ):
        ActorGroup(Worker, 3, plain, role="worker")
    with pytest.raises(ConfigError, match=r"needs 1 CPU, 0.5 GPU; the nodes have \(2 CPU\)"):
        ActorGroup(Worker, 1, plain, role="worker", options=ActorOptions(num_gpus=0.5))
