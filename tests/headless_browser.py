"""A headless Chromium, told what to do through a pipe; where there is none, tests are skipped."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FIRST_FREE = 20  # descriptors below may be any of this process


class Browser:
    """One page of a browser; `with` ends it.

    Args:
        folder: Where the browser keeps what it notes.
    """

    def __init__(self, folder: Path) -> None:
        read, self._write = os.pipe()
        self._read, written = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, _FIRST_FREE) for end in (read, written)]

        def wire() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [str(CHROMIUM), *options, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=wire,
        )
        for end in (read, written, *ends):
            os.close(end)
        self._numbers = itertools.count(1)
        self._rest = b""
        self.said: list[str] = []  # errors and broken policies, as the console shows them
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        for end in (self._read, self._write):
            os.close(end)

    def open(self, address: str) -> None:
        """Go to a page."""
        self._ask("Page.navigate", url=address)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; None while it cannot be had."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 120) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, (expression, self.said)
            time.sleep(0.1)

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if getattr(self, "_session", ""):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.said.append(str(about["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.said.append(about["entry"]["text"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)
