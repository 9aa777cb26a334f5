"""SIGTERM and SIGHUP end a run as Ctrl-C does: its state is saved, and its exit status says why.

Slurm, systemd and Docker end a process with SIGTERM, a terminal that closes with SIGHUP. Left to
themselves Python ends at once, and Ray, which takes SIGTERM over, aborts in the middle of a sweep.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
_SIGNALS = [signal.Signals[name] for name in _NAMES if hasattr(signal, name)]

_received: signal.Signals | None = None
_arrivals: int | None = None  # the pipe into which each signal's number goes as it arrives
_terminals: list[int] | None = None  # file descriptors, while the handlers are installed


def received() -> signal.Signals | None:
    """Return the first signal that asked this command, or the last one, to end; not Ctrl-C.

    Any thread may ask, and knows of a signal before its handler has run: that waits while the main
    thread is in a call of Ray's, which the same signal to Ray's processes may have ended.
    """
    _note_arrivals()
    return _received


def interrupted_status() -> int:
    """Return the exit status after a cut: 128 + the signal's number, 130 after Ctrl-C."""
    return 128 + (received() or signal.SIGINT)


@contextmanager
def stop_signals() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C: whoever handles that handles them.

    A signal that was ignored stays ignored (`nohup`). Does nothing within itself, nor outside the
    main thread, where Python handles no signals.
    """
    global _received, _terminals
    if _terminals is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _received, _terminals = None, [number for number in (0, 1, 2) if os.isatty(number)]
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    with _noted_at_once():
        _install()
        try:
            yield
        finally:
            _terminals = None
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def kept_from_ray() -> Iterator[None]:
    """Keep `ray.init` from taking SIGTERM over, and its processes from a terminal's SIGHUP.

    They are in this process's group, and the sweep is saved with their help.
    """
    if _terminals is None or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from experiments.internals.ray import untouched_sigterm

    # Whom Ray starts inherits the mask; for us the signal only waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        with untouched_sigterm():
            yield
    finally:
        _install()  # Ray's library has put its own below Python's: it prints a stack first
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


@contextmanager
def _noted_at_once() -> Iterator[None]:
    """Let Python write each signal's number into `_arrivals` as it arrives."""
    global _arrivals
    _arrivals, written = os.pipe()
    os.set_blocking(_arrivals, False)
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        _note_arrivals()
        pipe, _arrivals = _arrivals, None
        for end in (pipe, written):
            if end is not None:  # a forked child has none
                os.close(end)


def _note_arrivals() -> None:
    """Take the signals that have arrived since the last call; the first one is why we end."""
    global _received
    if _arrivals is None:
        return
    with suppress(BlockingIOError):
        for number in os.read(_arrivals, 256):
            if number in _SIGNALS:
                _received = _received or signal.Signals(number)


def _forget_in_child() -> None:
    """Leave the pipe to the parent: a forked child would take its signals, and add its own."""
    global _arrivals
    if _arrivals is not None:
        signal.set_wakeup_fd(-1)
        _arrivals = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def _install() -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do now."""
    global _received
    _received = _received or signal.Signals(number)
    if number == getattr(signal, "SIGHUP", None):
        _leave_terminals()
    press = signal.getsignal(signal.SIGINT)
    if not callable(press) or press is signal.default_int_handler:
        raise KeyboardInterrupt
    if getattr(getattr(press, "__self__", None), "ends_at_once", False):
        press(signal.SIGINT, frame)  # see `experiments.running.interruption`
        return
    name = signal.Signals(number).name
    tell(f"{name}: ending, and saving what was reached; a second signal ends at once.\n")
    press(signal.SIGINT, frame)


def tell(text: str) -> None:
    """Write to stderr in the middle of anything: its Python object may be in use."""
    with suppress(OSError):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())


def _leave_terminals() -> None:
    """Write to nowhere instead of a terminal that has gone, which would raise."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in _terminals or ():
        os.dup2(nowhere, number)
    os.close(nowhere)
