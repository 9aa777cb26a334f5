"""SIGTERM and SIGHUP do what Ctrl-C would do; the exit status is the signal's."""

from __future__ import annotations

import hashlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.stop_signals import interrupted_status, received, stop_signals

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_a_ctrl_c(how: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(how)
    pressed = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist may ignore it
    try:
        with stop_signals(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), how)
    finally:
        signal.signal(signal.SIGINT, pressed)
    assert received() is how and interrupted_status() == 128 + how
    assert signal.getsignal(how) is before
    assert capfd.readouterr().err == ""


def test_who_handles_ctrl_c_handles_the_signal_and_a_second_one_ends_at_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    presses = []

    def press(number: int, frame: Any) -> None:
        presses.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Tune does

    before = signal.signal(signal.SIGINT, press)
    try:
        with stop_signals():
            with stop_signals():  # within itself it does nothing
                os.kill(os.getpid(), signal.SIGTERM)
            assert presses == [signal.SIGINT]
            assert "a second signal ends at once" in capfd.readouterr().err
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGHUP)
        assert received() is signal.SIGTERM  # the first one is why it ends
    finally:
        signal.signal(signal.SIGINT, before)
    with stop_signals():
        assert received() is None and interrupted_status() == 130


def test_a_signal_is_known_before_its_handler_has_run() -> None:
    """Python runs handlers in the main thread, which may be in a long call of another library."""
    known: list[tuple[signal.Signals | None, bool]] = []

    def ask() -> None:
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        while received() is None and busy.is_set():  # until the main thread is next on a processor
            time.sleep(0.01)
        known.append((received(), busy.is_set()))

    before = signal.signal(signal.SIGINT, lambda *_: None)
    busy = threading.Event()
    try:
        with stop_signals():
            busy.set()
            asking = threading.Thread(target=ask)
            asking.start()
            hashlib.pbkdf2_hmac("sha256", b"", b"", 4_000_000)
            busy.clear()
            asking.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert known == [(signal.SIGTERM, True)]


def test_a_forked_child_takes_no_signal_from_its_parent() -> None:
    with stop_signals():
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: None)
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0 if received() is None else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert received() is None


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            assert received() is None
    finally:
        signal.signal(signal.SIGHUP, before)


CHILD = """
import signal, sys, time
signal.signal(signal.SIGHUP, lambda *_: None)  # the kernel may send one, too
from experiments.stop_signals import stop_signals
with stop_signals():
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("the terminal has gone", flush=True)
        open(sys.argv[1], "w").write("done")
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # stays so while Python ends; a function would not
"""


def test_a_terminal_that_closed_is_not_written_to(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "end")],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(theirs)
    assert os.read(ours, 5) == b"ready"
    os.close(ours)
    child.send_signal(signal.SIGHUP)  # what the kernel does where it is the controlling terminal
    assert child.wait(timeout=120) == 0
    assert (tmp_path / "end").read_text() == "done"
