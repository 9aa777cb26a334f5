"""What a command is doing before it has anything to show: a line on a terminal, lines in a log."""

from __future__ import annotations

import io
import os
import time

import pytest
from rich.console import Console

from experiments.activity import (
    activity_console,
    doing,
    nothing_to_tell,
    shown_activity,
    undisturbed,
)


def _console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, color_system=None)


def _said(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_log_gets_a_line_for_each_activity() -> None:
    console = _console(terminal=False)
    doing("not shown")  # nobody shows it
    with shown_activity(console):
        assert activity_console() is console
        doing("reading quickstart")
        doing("starting Ray")
        doing("starting Ray")
        with shown_activity(_console(terminal=False)):  # the outer one counts
            doing("starting trials")
        nothing_to_tell()
        doing("writing [red]")
    doing("not shown")
    assert activity_console() is None
    assert _said(console) == (
        "Reading quickstart …\nStarting Ray …\nStarting trials …\nWriting [red] …\n"
    )


def test_a_terminal_gets_one_line_that_moves_and_goes_away() -> None:
    console = _console(terminal=True)
    with shown_activity(console):
        doing("reading quickstart")
        assert "reading quickstart" in _said(console)  # at once
        size, until = len(_said(console)), time.monotonic() + 20
        while len(_said(console)) == size and time.monotonic() < until:
            time.sleep(0.05)
        assert len(_said(console)) > size  # it moves while the main thread is busy
        doing("starting Ray")
        assert "starting Ray" in _said(console)
        console.print("a note")
        nothing_to_tell()
        size = len(_said(console))
        time.sleep(0.5)
        assert len(_said(console)) == size
    assert "\x1b[2K" in _said(console).rpartition("starting Ray")[2]  # erased
    assert "a note\n" in _said(console)


def test_a_closed_terminal_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.dup2", lambda *_: None)  # rich would close this process's output

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    for terminal in (True, False):
        with shown_activity(Console(file=Gone(), force_terminal=terminal)):
            doing("starting Ray")
            doing("starting trials")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_can_print() -> None:
    console = _console(terminal=True)
    with shown_activity(console):
        doing("trying an environment")
        with undisturbed():
            child = os.fork()
        if child == 0:
            console.print("hello")
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
