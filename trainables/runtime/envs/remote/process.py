"""The process of one remote slot, from both ends of the pipe: `RemoteSlot` asks, `Slot` steps.

Messages are `(command, argument)`, answers `(True, result)` or `(False, ProcessError)`. The process
ends with its parent, whatever ends that: its standard input then reaches its end. It imports this
module, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import traceback
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle

from trainables.core.errors import ConfigError
from trainables.runtime.envs.curriculum import can_set_task, set_task
from trainables.runtime.envs.kinds import SeveralAgents
from trainables.runtime.envs.multi_agent.forms import MultiAgentApiError
from trainables.runtime.envs.state import get_slot_state, set_slot_state
from trainables.runtime.envs.sub_environment import (
    SubEnvironment,
    SubEnvironmentError,
    layers,
    users_env,
)

_MAIN = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from trainables.runtime.envs.remote.process import main; main(int(sys.argv[1]))"
)
# First: a loaded MLflow model puts a folder with another `trainables` before it.
_ROOT = str(Path(__file__).parents[4])
_SECONDS_TO_CLOSE = 5.0


# Errors that are raised here as what they are there, the special ones first.
_KNOWN = (MultiAgentApiError, SubEnvironmentError, SeveralAgents, ConfigError)


class ProcessError(NamedTuple):
    """An error in a slot's process, so that the trial's process can raise it again."""

    kind: type[Exception]
    message: str
    traceback: str


class Slot:
    """One environment that resets on the step after an episode's end."""

    def __init__(self, make_env: Any):
        self.env = make_env()
        self.ended = False  # the next step only resets

    def spaces(self, _: None) -> tuple[Any, Any, dict[str, Any]]:
        """Return observation space, action space and metadata."""
        return self.env.observation_space, self.env.action_space, dict(self.env.metadata)

    def reset(self, seeds: tuple[int, int] | None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; `seeds` are of the environment and of its action space."""
        self.ended = False
        if seeds is None:
            return self.env.reset()
        self.env.action_space.seed(seeds[1])
        return self.env.reset(seed=seeds[0])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make one row: a step, or the reset after an episode's end."""
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
    slot: Any = None
    name = ""
    while True:
        try:
            command, argument = cloudpickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            break
        if command == "close":
            break
        try:
            if command == "make":
                kind, maker = argument
                name = str(maker)
                slot = kind(maker)
                answer: tuple[bool, Any] = (True, slot.spaces(None))
            else:
                answer = (True, getattr(slot, command)(argument))
        except Exception as error:
            answer = (False, _described(error))
        _send(connection, name, command, answer)
    if slot is not None:
        slot.env.close()


def _send(connection: Connection, name: str, command: str, answer: tuple[bool, Any]) -> None:
    try:
        connection.send(answer)
    except BrokenPipeError:
        raise SystemExit(1) from None
    except Exception as error:  # what cannot be pickled, e.g. in an info
        what = ConfigError(f"{name}: what {command} returned cannot cross processes: {error}")
        connection.send((False, _described(what)))


def _described(error: Exception) -> ProcessError:
    kind = next((known for known in _KNOWN if isinstance(error, known)), None)
    message = str(error) if kind is not None else f"{type(error).__name__}: {error}"
    text = "".join(traceback.format_exception(error))
    return ProcessError(kind or SubEnvironmentError, message, text)


def _die_with_parent() -> None:
    """End with the parent, whose end of this pipe closes then, also while a step is made."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


class SlotDiedError(RuntimeError):
    """A slot's process has ended without being told to."""


class RemoteSlot:
    """One slot's environment in a process of its own.

    A new interpreter, not a fork: the trial's process has threads (torch's, Ray's), whose locks a
    fork would copy in whatever state they are.

    Args:
        maker: What makes the environment; it is sent to the process. Its text names the slot.
        kind: The class of what serves the slot there: made with the maker, it has a method for each
            command, `spaces` for what it answers once it is made, and `env`, which it closes.
    """

    def __init__(self, maker: Any, kind: type = Slot):
        self.maker, self._kind = maker, kind
        self._commands: deque[str] = deque()  # sent, not yet answered
        self._start()

    def _start(self) -> None:
        mine, theirs = socket.socketpair()
        with mine, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(theirs.fileno()), _ROOT, *sys.path],
                stdin=subprocess.PIPE,  # closes when this process ends: then the slot's ends, too
                pass_fds=[theirs.fileno()],
            )
            self._connection = Connection(mine.detach())
        self._commands.clear()
        self.send("make", (self._kind, self.maker))

    def fileno(self) -> int:
        """Return what `multiprocessing.connection.wait` waits for."""
        return self._connection.fileno()

    @property
    def num_unanswered(self) -> int:
        """Commands whose answers are still to come."""
        return len(self._commands)

    def send(self, command: str, argument: Any = None) -> None:
        """Tell the process to do something; `receive` gives the answer.

        Raises:
            SlotDiedError: if it has ended.
        """
        try:
            self._connection.send_bytes(cloudpickle.dumps((command, argument)))
        except OSError:
            raise self._died() from None
        self._commands.append(command)

    def receive(self) -> tuple[str, Any]:
        """Return the next answer, and the command that it answers. Waits for it.

        Raises:
            ConfigError, SubEnvironmentError: what was raised there.
            SlotDiedError: if the process has ended.
        """
        try:
            is_good, answer = self._connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        command = self._commands.popleft()
        if is_good:
            return command, answer
        assert isinstance(answer, ProcessError)
        error = answer.kind(answer.message)
        error.add_note(f"In the slot's process:\n{answer.traceback}")
        raise error

    def call(self, command: str, argument: Any = None) -> Any:
        """Send a command and wait for its answer. None may be unanswered before."""
        self.send(command, argument)
        return self.receive()[1]

    def _died(self) -> SlotDiedError:
        self._process.kill()
        status = self._process.wait()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return SlotDiedError(f"{self.maker}: its process has ended ({how})")

    def restart(self) -> None:
        """Start a new process for the slot, in place of one that has died."""
        self._dispose()
        self._start()

    def close(self) -> None:
        """End the process: it closes its environment, unless it takes too long."""
        try:
            self._connection.send_bytes(cloudpickle.dumps(("close", None)))
            self._process.wait(_SECONDS_TO_CLOSE)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self._dispose()

    def _dispose(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._connection.close()
