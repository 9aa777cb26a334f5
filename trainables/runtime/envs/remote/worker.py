"""The process of one remote slot: steps its environment as it is told over a pipe.

Messages are `(command, argument)`, answers `(True, result)` or `(False, ProcessError)`. The process
ends with its parent, whatever ends that: its standard input then reaches its end.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle

from trainables.core.errors import ConfigError
from trainables.runtime.envs.curriculum import can_set_task, set_task
from trainables.runtime.envs.state import get_slot_state, set_slot_state
from trainables.runtime.envs.sub_environment import (
    SubEnvironment,
    SubEnvironmentError,
    layers,
    users_env,
)


class ProcessError(NamedTuple):
    """An error in a slot's process, so that the trial's process can raise it again."""

    is_config_error: bool
    message: str
    traceback: str


class Slot:
    """One environment that resets on the step after an episode's end."""

    def __init__(self, make_env: Any):
        self.env = make_env()
        self.ended = False  # the next step only resets

    def spaces(self, _: None) -> tuple[Any, Any, dict[str, Any]]:
        """Observation space, action space and metadata."""
        return self.env.observation_space, self.env.action_space, dict(self.env.metadata)

    def reset(self, seeds: tuple[int, int] | None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; `seeds` are of the environment and of its action space."""
        self.ended = False
        if seeds is None:
            return self.env.reset()
        self.env.action_space.seed(seeds[1])
        return self.env.reset(seed=seeds[0])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One row: a step, or the reset after an episode's end."""
        if self.ended:
            obs, info = self.env.reset()
            self.ended = False
            return obs, 0.0, False, False, info
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.ended = bool(terminated or truncated)
        return obs, float(reward), bool(terminated), bool(truncated), info

    def choose_task(self, choice: tuple[bytes, dict[str, Any]]) -> Any:
        """Ask `env_task_fn` for a task, set it and return it."""
        task_fn = cloudpickle.loads(choice[0])
        task = task_fn(choice[1], users_env(self.env), self._context)
        self.set_task(task)
        return task

    def apply(self, function: bytes) -> Any:
        """Return what a function says of the environment and its context."""
        return cloudpickle.loads(function)(users_env(self.env), self._context)

    @property
    def _context(self) -> Any:
        (sub,) = layers(self.env, SubEnvironment)
        return sub.context

    def can_set_task(self, _: None) -> bool:
        """Tell whether the environment has tasks."""
        return can_set_task(self.env)

    def set_task(self, task: Any) -> None:
        """Set the environment's task."""
        set_task(self.env, task)

    def get_state(self, _: None) -> dict[str, Any] | None:
        """Return the environment's state; None if some part of it cannot give its own."""
        state = get_slot_state(self.env)
        return None if state is None else {"env": state, "ended": self.ended}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        set_slot_state(self.env, state["env"])
        self.ended = bool(state["ended"])


def main(file_descriptor: int) -> None:
    """Serve one slot until the parent closes it or is gone."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    connection = Connection(file_descriptor)
    slot: Slot | None = None
    while True:
        try:
            command, argument = cloudpickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            break
        if command == "close":
            break
        try:
            if command == "make":
                slot = Slot(argument)
                answer: tuple[bool, Any] = (True, slot.spaces(None))
            else:
                answer = (True, getattr(slot, command)(argument))
        except Exception as error:
            answer = (False, _described(error))
        _send(connection, command, answer)
    if slot is not None:
        slot.env.close()


def _send(connection: Connection, command: str, answer: tuple[bool, Any]) -> None:
    try:
        connection.send(answer)
    except BrokenPipeError:
        raise SystemExit(1) from None
    except Exception as error:  # what cannot be pickled, e.g. in an info
        what = ConfigError(f"what {command} returned cannot cross processes: {error}")
        connection.send((False, _described(what)))


def _described(error: Exception) -> ProcessError:
    known = isinstance(error, (ConfigError, SubEnvironmentError))
    message = str(error) if known else f"{type(error).__name__}: {error}"
    text = "".join(traceback.format_exception(error))
    return ProcessError(isinstance(error, ConfigError), message, text)


def _die_with_parent() -> None:
    """Also while the environment is busy: the parent's end of this pipe closes with the parent."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
