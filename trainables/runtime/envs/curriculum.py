"""Curricula: environments whose task can be set between episodes (setting `env_task_fn`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv, VectorEnv

from trainables.core.errors import ConfigError
from trainables.core.features import Feature
from trainables.runtime.envs.all_slots import SlotsApart, each_env
from trainables.runtime.envs.slots import EnvContext

TaskFunction = Callable[[dict[str, Any], Any, EnvContext], Any]


class TaskSettableEnv(gym.Env):
    """An environment with a task, e.g. its level. Override what differs.

    Any environment with a method `set_task` will do, also below wrappers; deriving from this class
    is not needed. A task is a number, a string, an array, or lists and dicts of those, so that
    checkpoints can hold it.
    """

    _task: Any = None

    def set_task(self, task: Any) -> None:
        """Take a new task. It is best begun at the next reset: an episode may be running."""
        self._task = task

    def get_task(self) -> Any:
        """Return the task that was set last."""
        return self._task


def set_task(env: Any, task: Any) -> None:
    """Set the task of an environment below its wrappers.

    Raises:
        ConfigError: if it has no `set_task`.
    """
    layer = _with_set_task(env)
    if layer is None:
        raise no_set_task(type(getattr(env, "unwrapped", env)).__name__)
    layer.set_task(task)


def can_set_task(env: Any) -> bool:
    """Tell whether an environment has a `set_task` of its own."""
    layer = _with_set_task(env)
    if getattr(type(layer), "passes_tasks_on", False):  # it can, if what it wraps can
        return can_set_task(layer.env)
    return layer is not None


def no_set_task(what: str) -> ConfigError:
    """Return the error for an environment without tasks."""
    return ConfigError(
        f"env_task_fn: {what} has no method set_task(task); see "
        "trainables.runtime.envs.curriculum.TaskSettableEnv"
    )


def _with_set_task(env: Any) -> Any:
    """Return the outermost layer with a `set_task`, or None."""
    # Looked up on the class: some wrappers pass attribute lookups on to what they wrap.
    while not callable(getattr(type(env), "set_task", None)):
        if not isinstance(env, gym.Wrapper):
            return None
        env = env.env
    return env


def check_tasks(env: VectorEnv, name: str) -> None:
    """Raise `ConfigError` unless the tasks of an environment can be set."""
    if isinstance(env, SlotsApart):
        can = env.can_set_tasks()
    else:
        can = can_set_task(env.envs[0] if isinstance(env, SyncVectorEnv) else env)
    if not can:
        raise no_set_task(f"env {name!r}")


def choose_tasks(
    env: VectorEnv, task_fn: TaskFunction, result: dict[str, Any], context: EnvContext
) -> list[Any]:
    """Ask for the task of each slot, and set it.

    Args:
        env: A class of vector environments of the user has one task for all its slots.
        task_fn: Called with the result, the slot's environment and its context.
        result: The result of the last training iteration.
        context: What a vector environment of the user was made with.

    Returns:
        The tasks.
    """
    if isinstance(env, SlotsApart):
        return env.choose_tasks(task_fn, result)
    tasks = each_env(env, lambda slot, its: task_fn(result, slot, its), context)
    set_tasks(env, tasks)
    return tasks


def set_tasks(env: VectorEnv, tasks: Sequence[Any]) -> None:
    """Set the task of each slot; with other numbers of slots they are dealt out in turn."""
    if not isinstance(env, (SlotsApart, SyncVectorEnv)):
        set_task(env, tasks[0])
        return
    dealt = [tasks[slot % len(tasks)] for slot in range(env.num_envs)]
    if isinstance(env, SlotsApart):
        env.set_tasks(dealt)
        return
    for slot, task in zip(env.envs, dealt, strict=True):
        set_task(slot, task)


class Tasks(Feature):
    """Tasks of environments, which change between episodes (`env_task_fn`)."""

    def check(self, env: VectorEnv, name: str) -> None:
        """Raise `ConfigError` unless the tasks of an environment can be set."""
        check_tasks(env, name)

    def choose(
        self, env: VectorEnv, task_fn: TaskFunction, result: dict[str, Any], context: EnvContext
    ) -> list[Any]:
        """Ask for the task of each slot, and set it; see `choose_tasks`."""
        return choose_tasks(env, task_fn, result, context)

    def set(self, env: VectorEnv, tasks: Sequence[Any]) -> None:
        """Set the task of each slot; see `set_tasks`."""
        set_tasks(env, tasks)

    def set_one(self, env: Any, task: Any) -> None:
        """Set the task of the environment of one slot; see `set_task`."""
        set_task(env, task)


FEATURE = Tasks()
