"""Evaluation groups whose actors live in this process: late, hung, dying or raising ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest

from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.policy.policy import Policy
from trainables.runtime.actors import remote_workers
from trainables.runtime.actors.bundles import Bundles
from trainables.runtime.actors.group import ActorDied, ActorHung, Reply
from trainables.runtime.evaluation import remote_group
from trainables.runtime.evaluation.feature import make_evaluation
from trainables.runtime.evaluation.group import EvaluationGroup
from trainables.runtime.evaluation.runner import EvaluationActor
from trainables.runtime.sampling.module_slots import ModuleSlots

SEED = np.random.SeedSequence(7)
TIMEOUT_S = 9.5


class Clock:
    """Time goes on only where actors are waited for in vain."""

    now: ClassVar[float] = 0.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now


class FakeActors:
    """An `ActorGroup` whose actors play here, when they are waited for.

    Attributes:
        moods: How an actor takes its tasks: "late" until it is told to end at once, "hung", "dies",
            "raises". A new one is in a good mood.
    """

    moods: ClassVar[dict[int, str]] = {}

    def __init__(
        self, actor_class: type, count: int, arguments: Callable[..., Any], **options: Any
    ):
        self._arguments = arguments
        self._actors: dict[int, Any] = dict.fromkeys(range(1, count + 1))
        self.requests: dict[int, deque[Any]] = {index: deque() for index in self._actors}
        self.rebuild(arguments)

    def rebuild(self, arguments: Callable[..., Any]) -> None:
        for index in self._actors:
            self._actors[index] = EvaluationActor()
            self._actors[index].build(*arguments(index, 0))

    def __len__(self) -> int:
        return len(self._actors)

    @property
    def healthy(self) -> list[int]:
        return [index for index, actor in self._actors.items() if actor is not None]

    def restarts(self, index: int) -> int:
        return 0

    @property
    def starting(self) -> list[int]:
        return []

    def restore(self) -> list[int]:
        failed = sorted(set(self._actors) - set(self.healthy))
        for index in failed:
            self.moods.pop(index, None)
            self._actors[index] = EvaluationActor()
            self._actors[index].build(*self._arguments(index, 1))
        return failed

    def kill(self, index: int) -> None:
        self._actors[index] = None
        self.requests[index].clear()

    def stop(self) -> None:
        for index in self._actors:
            self.kill(index)

    def wait_until_built(
        self, timeout_s: float | None = None, *, for_all: bool = True
    ) -> list[Any]:
        return []

    def take_failures(self) -> list[Reply]:
        return []

    def num_in_flight(self, index: int) -> int:
        return len(self.requests[index])

    def submit(self, index: int, method: str, *arguments: Any) -> None:
        if method == "finish":
            self._actors[index].finish(*arguments)
            if self.moods.get(index) == "late" and arguments[1]:
                self.moods[index] = "ending"
        else:
            self.requests[index].append((method, arguments))

    def ready(self, timeout_s: float = 0.0) -> list[Reply]:
        replies = [self._answer(index) for index in self.healthy if self.requests[index]]
        arrived = [reply for reply in replies if reply is not None]
        if replies and not arrived:
            Clock.now += timeout_s
        return arrived

    def _answer(self, index: int) -> Reply | None:
        mood = self.moods.get(index)
        if mood in ("late", "hung"):
            return None
        method, arguments = self.requests[index].popleft()
        if mood == "dies":
            self.kill(index)
            return Reply(index, method, error=ActorDied(f"actor {index} died"))
        if mood == "raises":
            return Reply(index, method, error=ValueError("a leg came off"))
        return Reply(index, method, getattr(self._actors[index], method)(*arguments))

    def call(self, method: str, indices: list[int], timeout_s: float | None) -> list[Reply]:
        return self.call_each(method, dict.fromkeys(indices, ()), timeout_s)

    def call_each(self, method: str, arguments: Any, timeout_s: float | None) -> list[Reply]:
        return [self._called(index, method, given) for index, given in arguments.items()]

    def _called(self, index: int, method: str, arguments: Any) -> Reply:
        if self.moods.get(index) == "hung":
            return Reply(index, method, error=ActorHung(f"actor {index} gives no sign of life"))
        try:
            return Reply(index, method, getattr(self._actors[index], method)(*arguments))
        except ValueError as error:
            return Reply(index, method, error=error)


def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the actors of evaluation groups be `FakeActors`, on a `Clock`."""
    monkeypatch.setattr(FakeActors, "moods", {})
    monkeypatch.setattr(remote_workers, "ActorGroup", FakeActors)
    monkeypatch.setattr(remote_workers.ray, "put", lambda value: value)
    monkeypatch.setattr(Bundles, "check_room", lambda bundles: None)  # would start a Ray
    monkeypatch.setattr(remote_group, "time", Clock)


def config_of(**settings: Any) -> PPOConfig:
    given = {"evaluation_num_env_runners": 2, "evaluation_sample_timeout_s": TIMEOUT_S}
    if settings.get("evaluation_num_env_runners") == 0:
        del given["evaluation_sample_timeout_s"]
    config = PPOConfig.from_dict({"env": "CartPole-v1", "seed": 0, **given, **settings})
    config.validate()
    return config


def cartpole_policy() -> Policy:
    env = gym.make("CartPole-v1")
    return Policy(
        env.observation_space, env.action_space, seed=5, observation_filter="MeanStdFilter"
    )


def evaluation_group(
    config: PPOConfig, policy: Policy, existing: EvaluationGroup | None = None
) -> Any:
    return make_evaluation(existing, config, {DEFAULT_MODULE_ID: policy}, ModuleSlots(), None)


def group_of(policy: Policy, existing: EvaluationGroup | None = None, **settings: Any) -> Any:
    """Return the group of some settings, in process or over fake actors."""
    return evaluation_group(config_of(**settings), policy, existing)


def evaluated(group: EvaluationGroup) -> Any:
    group.sync_weights(1, 3, SEED)
    return group.play()


# What makes an algorithm's iterations and evaluations short.
SMALL = {
    "num_envs_per_env_runner": 2,
    "train_batch_size_per_learner": 128,
    "minibatch_size": 64,
    "num_epochs": 1,
    "evaluation_duration": 4,
    "evaluation_num_env_runners": 1,
}


def evaluation_of(result: dict[str, Any]) -> dict[str, Any]:
    return {k.removeprefix("evaluation/"): v for k, v in result.items() if "evaluation/" in k}
