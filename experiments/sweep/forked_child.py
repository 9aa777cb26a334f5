"""Asks a function in a forked child, which may hang or crash without harm to this process.

What the function loads or changes stays there. A fork costs milliseconds, a fresh interpreter
several seconds of importing torch, and it would not know what a script has registered.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from experiments.activity import undisturbed

# Their threads do not survive a fork; in a process that has them the function is called in place.
_NOT_FORKED = ("jax", "tensorflow")


class ChildEnded(Exception):
    """The child ended before the function did: by which signal, or with which status."""


def told_apart(tell: Callable[..., str], *args: Any, limit_s: float) -> str:
    """Return the text that a function returns in a forked child, or here if none can be forked.

    Args:
        tell: The function.
        args: Its arguments.
        limit_s: For how long the child is waited for, seconds.

    Raises:
        TimeoutError: It took longer, and was ended.
        ChildEnded: It ended the child.
    """
    if not _may_fork():
        return tell(*args)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, tell, args))
    with warnings.catch_warnings():
        # Python warns of a fork beside threads: the child takes none of their locks, and a child
        # that did not come back would be ended.
        warnings.simplefilter("ignore", DeprecationWarning)
        with undisturbed():
            process.start()
    sender.close()
    try:
        if not multiprocessing.connection.wait([receiver, process.sentinel], limit_s):
            raise TimeoutError
        with suppress(EOFError):
            if receiver.poll():
                return receiver.recv_bytes().decode()
        process.join()
        raise ChildEnded(_end_of(process))
    finally:
        _end(process)
        receiver.close()


def _end_of(process: Any) -> str:
    status = process.exitcode
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _end(process: Any) -> None:
    """End the child, and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()
    process.close()


def _may_fork() -> bool:
    """Tell whether a forked child of this process can be expected to work."""
    if sys.platform != "linux" or any(name in sys.modules for name in _NOT_FORKED):
        return False
    ray, torch = sys.modules.get("ray"), sys.modules.get("torch")
    if ray is not None and ray.is_initialized():
        return False
    return torch is None or not torch.cuda.is_initialized()


def _child(sender: Any, tell: Callable[..., str], args: tuple[Any, ...]) -> None:
    os.setsid()  # what the function starts is ended with this process
    if "torch" in sys.modules:  # the threads of a parallel operation are the parent's
        sys.modules["torch"].set_num_threads(1)
    sender.send_bytes(tell(*args).encode())
