"""What is sent to env runners in actors: function objects, which must not close over the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from trainables.runtime.envs.slot_tasks import TaskFunction
from trainables.runtime.sampling.env_runner import EnvRunner

T = TypeVar("T")


class WithId(Generic[T]):
    """Calls a function with the env runner's index before it."""

    def __init__(self, function: Callable[[int, EnvRunner], T]):
        self._function = function

    def __call__(self, runner: EnvRunner) -> T:
        return self._function(runner.worker_index, runner)


class WithIndex(Generic[T]):
    """Calls a function with the env runner's index behind it."""

    def __init__(self, function: Callable[[EnvRunner, int], T]):
        self._function = function

    def __call__(self, runner: EnvRunner) -> T:
        return self._function(runner, runner.worker_index)


class SetState:
    """Takes over a state; returns whether episodes go on where they were."""

    def __init__(self, state: dict[str, Any]):
        self._state = state

    def __call__(self, runner: EnvRunner) -> bool:
        return runner.set_state(self._state)


class Reseed:
    """Starts new episodes on the random streams of a seed."""

    def __init__(self, seed: np.random.SeedSequence):
        self._seed = seed

    def __call__(self, runner: EnvRunner) -> bool:
        runner.reseed(self._seed)
        return True


class ChooseTasks:
    """Asks for the task of each slot, and sets it."""

    def __init__(self, task_fn: TaskFunction, result: dict[str, Any]):
        self._task_fn, self._result = task_fn, result

    def __call__(self, runner: EnvRunner) -> list[Any]:
        return runner.choose_tasks(self._task_fn, self._result)


class SetTasks:
    """Sets tasks of each env runner's slots; those of other numbers are dealt out."""

    def __init__(self, tasks: list[list[Any]]):
        self._tasks = tasks

    def of(self, index: int) -> list[Any]:
        """Return the tasks of an env runner's slots."""
        return self._tasks[max(0, index - 1) % len(self._tasks)]

    def __call__(self, runner: EnvRunner) -> None:
        runner.set_tasks(self.of(runner.worker_index))
