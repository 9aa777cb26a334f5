"""`tunescape watch` and `tunescape dashboard` as they are called."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from analysis_sweeps import row
from headless_browser import CHROMIUM, Browser
from typer.testing import CliRunner
from watched_folders import Folder

from analysis import ResultsError
from experiments import cli
from experiments.errors import ExperimentError


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "sweep")
    folder.add("a", rows=[row(1, 1.0), row(2, 5.0)], config={"lr": 0.25})
    folder.add("b", rows=[row(1, 2.0, done=True)], config={"lr": 0.5})
    return folder


def started(folder: Folder) -> tuple[subprocess.Popen[str], str]:
    """The command's process, and the address that it says."""
    command = [sys.executable, "-m", "tunescape", "watch", str(folder.path), "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        # A background job of a shell ignores Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "sweep: http://127.0.0.1:" in line and "(Ctrl-C stops it)" in line, line
    return process, line.split(": ", 1)[1].split(" ")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_by_ctrl_c_while_a_page_is_open(folder: Folder, number: signal.Signals) -> None:
    process, address = started(folder)
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as page:
        page.sendall(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert page.recv(12) == b"HTTP/1.0 200"
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and output == ""
    assert "Traceback" not in errors and "Exception" not in errors


def test_what_cannot_be_watched_is_told(folder: Folder) -> None:
    run = CliRunner().invoke
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = run(cli.app, ["watch", str(folder.path), "--port", port])
    assert isinstance(result.exception, ExperimentError)
    assert str(result.exception) == (
        f"port {port} on 127.0.0.1 cannot be used: Address already in use; choose one with --port"
    )
    result = run(cli.app, ["watch", str(folder.path.parent)])
    assert isinstance(result.exception, ResultsError)
    assert "not a sweep folder" in str(result.exception)


@pytest.mark.full(
    "unit/sweeps/watch/test_watch_server.py::test_events_follow_the_files_to_every_page"
)
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_draws_the_page_and_follows(folder: Folder, tmp_path: Path) -> None:
    folder.add("<i>c", rows=[row(1, 0.5)], config={"lr": 0.75})
    process, address = started(folder)
    with folder.running(), Browser(tmp_path / "browser") as browser:
        browser.open(address)
        rows = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent)"
        browser.until(f"JSON.stringify({rows}) === JSON.stringify(['a', 'b', '<i>c'])")
        curves = "document.querySelectorAll('.scatterlayer .trace').length"
        browser.until(f"{curves} === 3")
        assert browser.evaluate("document.querySelectorAll('tbody i').length") == 0
        assert "1 of 3 trials done" in browser.evaluate("document.body.textContent")
        folder.report("b", 2, 9.0)
        browser.until(f"{rows}[0] === 'b'")
        browser.until("document.querySelector('figcaption').textContent.includes('trial, b.')")
        assert browser.evaluate("document.getElementById('lost').hidden") is True
        assert browser.said == []
        process.terminate()
        process.communicate(timeout=60)
        browser.until("!document.getElementById('lost').hidden")
