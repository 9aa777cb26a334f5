"""Curricula: environments whose task can be set between episodes (setting `env_task_fn`)."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from trainables.core.errors import ConfigError


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
