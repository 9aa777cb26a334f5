"""Programs in processes of their own that need not import anything.

Most of what a short sweep costs its driver are imports. So one process makes them, once, and each
program is a fork of it, which then is on its own: it has its group, environment and folder, gets
signals, and ends as a program does.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path

import cheap_sweeps

from experiments.workers import warm

ROOT = Path(__file__).parents[1]
COMMAND = "experiments.cli"

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["driver_imports"])


class Driver:
    """A program that runs; of what `subprocess.Popen` has, what tests need.

    Args:
        arguments: Of the program.
        cwd: Where it runs.
        module: What `python -m` is to run.
        variables: Of its environment, besides this one's.
        errors_apart: Whether its errors are not part of `stdout`.
        real_workers: Whether its workers are made as for a user, not by this process' server.

    Attributes:
        stdout: What it says.
        returncode: None while it runs; that of a signal which ended it is negative.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        module: str = COMMAND,
        variables: Mapping[str, str] | None = None,
        errors_apart: bool = False,
        real_workers: bool = False,
    ) -> None:
        paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": paths, **(variables or {})}
        pipes = [_forks.Pipe(duplex=False) for _ in range(1 + errors_apart)]
        theirs = [end for _, end in pipes]
        if not real_workers:
            warm.start_server()
        workers = None if real_workers else warm._server
        self._process = _forks.Process(
            target=_become, args=(module, arguments, str(cwd), environment, theirs, workers)
        )
        self._process.start()
        atexit.register(self._process.kill)  # else who is left would be waited for
        self._said = []
        for ours, end in pipes:
            end.close()
            self._said.append(os.fdopen(os.dup(ours.fileno()), encoding="utf-8"))
            ours.close()
        self.stdout = self._said[0]
        self.returncode: int | None = None

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The status that it ended with."""
        self.returncode = self._process.exitcode
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        """Wait for its end; what it said, and of its errors, that was not yet read.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        said = [""] * len(self._said)

        def read(number: int) -> None:
            said[number] = self._said[number].read()

        readers = [threading.Thread(target=read, args=(n,), daemon=True) for n in range(len(said))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
        self._process.join(timeout)
        if self.poll() is None or any(reader.is_alive() for reader in readers):
            raise subprocess.TimeoutExpired("a program", timeout)
        for stream in self._said:
            stream.close()
        return said[0], said[-1] if len(said) > 1 else ""


def completed(
    *arguments: str, cwd: Path, variables: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """A command of tunescape that has run to its end."""
    driver = Driver(*arguments, cwd=cwd, variables=variables, errors_apart=True)
    output, errors = driver.communicate(timeout)
    assert driver.returncode is not None
    return subprocess.CompletedProcess(arguments, driver.returncode, output, errors)


def _become(
    module: str,
    arguments: tuple[str, ...],
    cwd: str,
    environment: dict[str, str],
    outputs: list[Connection],
    workers: warm.WorkerServer | None,
) -> None:
    """In the fork: be the program."""
    os.setpgid(0, 0)  # signals to its group are for it alone
    for number, output in ((1, outputs[0]), (2, outputs[-1])):
        os.dup2(output.fileno(), number)
    for output in outputs:
        output.close()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:1] = [cwd, *environment["PYTHONPATH"].split(os.pathsep)]
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)
    cheap_sweeps.as_the_parent_does()
    if workers is not None:
        warm._server = workers
    try:
        with nullcontext() if workers is None else warm.warm_workers():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:  # what forks leave out
        threading._shutdown()
        atexit._run_exitfuncs()
