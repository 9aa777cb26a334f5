"""`RemoteSlot`: the process of one slot, as the trial's process sees it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle

from trainables.core.errors import ConfigError
from trainables.runtime.envs.remote.worker import ProcessError
from trainables.runtime.envs.slots import SlotMaker
from trainables.runtime.envs.sub_environment import SubEnvironmentError

_MAIN = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from trainables.runtime.envs.remote.worker import main; main(int(sys.argv[1]))"
)
# First: a loaded MLflow model puts a folder with another `trainables` before it.
_ROOT = str(Path(__file__).parents[4])
_SECONDS_TO_CLOSE = 5.0


class SlotDiedError(RuntimeError):
    """A slot's process has ended without being told to."""


class RemoteSlot:
    """One slot's environment in a process of its own.

    A new interpreter, not a fork: the trial's process has threads (torch's, Ray's), whose locks a
    fork would copy in whatever state they are.

    Args:
        maker: Makes the environment; sent to the process.
    """

    def __init__(self, maker: SlotMaker):
        self.maker = maker
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
        self.send("make", self.maker)

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`."""
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
        kind = ConfigError if answer.is_config_error else SubEnvironmentError
        error = kind(answer.message)
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
