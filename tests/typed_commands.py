"""Commands of tunescape in this process, as a user types them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from experiments import cli

Run = Callable[..., tuple[int, str, str]]


def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What runs a command; it gives its exit status, its output and its errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tunescape", *arguments])
        with pytest.raises(SystemExit) as status:
            cli.main()
        captured = capsys.readouterr()
        return int(status.value.code or 0), captured.out, captured.err

    return run
