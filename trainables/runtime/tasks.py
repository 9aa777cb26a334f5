"""Tasks of all slots of a vector environment (setting `env_task_fn`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gymnasium.vector import SyncVectorEnv, VectorEnv

from trainables.runtime.curriculum import can_set_task, no_set_task, set_task
from trainables.runtime.env_slots import EnvContext
from trainables.runtime.remote_envs import RemoteVectorEnv
from trainables.runtime.sub_environment import SubEnvironment, layers

TaskFunction = Callable[[dict[str, Any], Any, EnvContext], Any]


def check_tasks(env: VectorEnv, name: str) -> None:
    """Raise `ConfigError` unless the tasks of an environment can be set."""
    if isinstance(env, RemoteVectorEnv):
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
        result: Of the last training iteration.
        context: What a vector environment of the user was made with.

    Returns:
        The tasks.
    """
    if isinstance(env, RemoteVectorEnv):
        return env.choose_tasks(task_fn, result)
    if not isinstance(env, SyncVectorEnv):
        tasks = [task_fn(result, env, context)]
    else:
        tasks = [task_fn(result, slot, _context(slot)) for slot in env.envs]
    set_tasks(env, tasks)
    return tasks


def set_tasks(env: VectorEnv, tasks: Sequence[Any]) -> None:
    """Set the task of each slot; with other numbers of slots they are dealt out in turn."""
    if not isinstance(env, (RemoteVectorEnv, SyncVectorEnv)):
        set_task(env, tasks[0])
        return
    dealt = [tasks[slot % len(tasks)] for slot in range(env.num_envs)]
    if isinstance(env, RemoteVectorEnv):
        env.set_tasks(dealt)
        return
    for slot, task in zip(env.envs, dealt, strict=True):
        set_task(slot, task)


def count_restarts(env: SyncVectorEnv | RemoteVectorEnv) -> int:
    """How many environments were ever replaced."""
    if isinstance(env, RemoteVectorEnv):
        return env.num_restarts
    return sum(sub.num_restarts for slot in env.envs for sub in layers(slot, SubEnvironment))


def _context(slot: Any) -> EnvContext:
    (sub,) = layers(slot, SubEnvironment)  # gymnasium's own environments have no tasks
    return sub.context
