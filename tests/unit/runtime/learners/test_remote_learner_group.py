"""What a group of learners makes of answers, failures and errors. Without Ray."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ObjectLostError

from trainables import PPOConfig
from trainables.runtime.actors.group import ActorDied, ActorHung, Reply
from trainables.runtime.learners import remote_group as remote_learner_group
from trainables.runtime.learners.remote_group import RemoteLearnerGroup


class Counting:
    """A learner whose weights, and whose optimiser, are the number of its updates."""

    def __init__(self) -> None:
        self.weights, self.steps = 0, 0

    def run(self, function: Any, data: Any, filters: Any, num_env_steps: int, args: Any) -> Any:
        function()
        self.weights, self.steps = self.weights + 1, self.steps + 1
        return f"update {self.steps}", self.get_state()["policies"]

    def get_state(self) -> dict[str, Any]:
        return {"policies": {"p": {"weights": self.weights}}, "learner": {"steps": self.steps}}

    def begin(self, policies: dict[str, Any]) -> None:
        self.weights = policies["p"]["weights"]

    def set_state(self, state: dict[str, Any], with_random: bool = True) -> None:
        self.weights = state["policies"]["p"]["weights"]
        if state["learner"] is not None:
            self.steps = state["learner"]["steps"]


class Actors:
    """`ActorGroup` in this process: every request is answered, in order, once it is waited for."""

    def __init__(self, actor_class: type, count: int, arguments: Any, **options: Any):
        self.indices = range(1, count + 1)
        self.learners: dict[int, Counting] = {}
        self.requests: dict[int, deque[Any]] = {i: deque() for i in self.indices}
        self.late: set[int] = set()  # who answers last
        self.hangs: set[int] = set()  # in what it was asked before it is built again
        self.rebuild(arguments)

    def __len__(self) -> int:
        return len(self.indices)

    def rebuild(self, arguments: Any) -> None:
        self.restore()

    def restore(self) -> None:
        for index in self.indices:
            self.learners.setdefault(index, Counting())

    def wait_until_built(self, timeout_s: float) -> list[Reply]:
        error = ActorHung("learner 1 did not answer build within 600 s")
        return [Reply(index, "build", error=error) for index in self.hangs]

    def kill(self, index: int) -> None:
        self.learners.pop(index, None)
        self.requests[index].clear()
        self.hangs.discard(index)

    def submit(
        self, index: int, method: str, *args: Any, num_returns: int = 1, timeout_s: float = 0
    ) -> None:
        if index not in self.learners:
            raise ActorDied(f"learner {index} has failed before")
        self.requests[index].append((method, args))

    def ready(self, timeout_s: float | None) -> list[Reply]:
        waiting = [i for i in self.indices if self.requests[i]]
        for index in [i for i in waiting if i not in self.late] or waiting:
            method, args = self.requests[index].popleft()
            return [self.answer(index, method, args)]
        return []

    def answer(self, index: int, method: str, args: Any) -> Reply:
        if method in ("address", "open", "join"):
            return Reply(index, method, "here")
        try:
            return Reply(index, method, getattr(self.learners[index], method)(*args))
        except Exception as error:
            return Reply(index, method, error=error)


class Weights:
    """The trial's own policy."""

    recipe: dict[str, Any] = {}  # noqa: RUF012
    observations = SimpleNamespace(filter=None)
    weights = 0

    def set_weights(self, weights: int) -> None:
        self.weights = weights

    def get_state(self) -> dict[str, Any]:
        return {"weights": self.weights}


def get(value: Any) -> Any:
    """Stands for `ray.get`; an exception is an object that is lost."""
    if isinstance(value, Exception):
        raise value
    return value


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Weights:
    monkeypatch.setattr(remote_learner_group, "ActorGroup", Actors)
    monkeypatch.setattr(remote_learner_group, "ray", SimpleNamespace(put=lambda x: x, get=get))
    return Weights()


@pytest.fixture
def group(policy: Any) -> Any:
    config = PPOConfig().learners(num_learners=2)
    return RemoteLearnerGroup(config, {"p": policy}, lambda config, module: None, seed=1)


def update() -> None:
    """Goes well."""


def refuse() -> None:
    raise ValueError("these data are none")


def lose() -> None:
    raise ActorHung("learner 1 did not answer run within 1800 s")


def test_a_state_has_the_weights_that_belong_to_its_optimiser(group: Any, policy: Weights) -> None:
    group.submit(update, {})
    group.submit(update, {})
    group._actors.late = {2}  # so that no update is finished when the state comes
    state = group.get_state()
    assert (state["steps"], policy.weights) == (2, 2)
    group.pull_weights()
    assert policy.weights == 2


def test_results_from_before_another_state_are_dropped(group: Any) -> None:
    group.submit(update, {})
    group.submit(update, {})
    group.set_state({"steps": 7, "learners": {}})
    assert group.finished(0.0) == [] and group.num_queued == 0
    assert group.run(update, {}) == "update 8"


@pytest.mark.parametrize("queued", [0, 1])
def test_after_an_error_the_next_answer_is_that_of_the_next_question(
    group: Any, policy: Weights, queued: int
) -> None:
    group.run(update, {})
    group.remember()
    while group._remembering is not None:
        group._receive(None)
    for _ in range(queued):
        group.submit(update, {})
    with pytest.raises(ValueError, match="these data are none"):
        group.run(refuse, {})
    assert group.num_restarts == 0 and group.num_queued == 0
    assert group.run(update, {}) == "update 2"
    assert group.num_restarts == 1
    assert group.get_state()["steps"] == policy.weights == 2


def test_weights_that_are_lost_are_those_of_the_last_state(group: Any, policy: Weights) -> None:
    group.run(update, {})
    assert group.get_state()["steps"] == 1
    group.run(update, {})
    group._published = ObjectLostError("00", "here", "")
    group.pull_weights()
    assert policy.weights == 1 and group.num_restarts == 1
    assert group.run(update, {}) == "update 2"


def test_learners_that_hang_in_another_trial_are_replaced(group: Any, policy: Weights) -> None:
    group._actors.hangs = {1}
    before = dict(group._actors.learners)
    config, given = group._recipe.config, dict[str, Any](p=policy)
    existing = group.handed_over(config)
    group = RemoteLearnerGroup(config, given, lambda config, module: None, 2, existing)
    assert group.run(update, {}) == "update 1"
    assert not set(before.values()) & set(group._actors.learners.values())
    assert group.num_restarts == 0


def test_an_update_that_takes_too_long_is_told_what_there_is_to_do(
    group: Any,
) -> None:
    with pytest.raises(RuntimeError, match=r"within 1800 s .*a smaller train batch"):
        group.run(lose, {})
