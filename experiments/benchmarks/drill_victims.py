"""Who is killed in a crash drill, and how a sweep's driver ends after it.

A *driver* is the process of `tunescape run` or `resume`. It leads a session of its own, in which
Ray's processes lie. Those of trials have sessions of their own, and are not waited for here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from experiments.benchmarks.mlflow_server import MLflowServer
from experiments.benchmarks.processes import PROC, children_of, name_of
from experiments.trial_info import read_json_lines

GROUP = "all"
"""The driver with everything that it started."""
DRIVER, HOST, SERVER = "driver", "host", "server"
RAY = ("raylet", "gcs_server")
SIGNALS = ("SIGINT", "SIGTERM")
VICTIMS = (GROUP, DRIVER, HOST, SERVER, *RAY, *SIGNALS)
"""All of them, or by a signal that asks the driver to end."""
GOES_ON = (HOST, SERVER)
"""Deaths that the driver survives."""
OUTAGE_S = 3.0
"""How long a killed server stays away."""
LIMITS_S = {GROUP: 1.0, DRIVER: 1.0, **dict.fromkeys(RAY, 60.0), **dict.fromkeys(SIGNALS, 30.0)}
"""Within what time the driver has ended, seconds; `SIGINT` is Ctrl-C."""
STATUSES = {"raylet": 3, "gcs_server": 3, "SIGINT": 130, "SIGTERM": 143}
"""The driver's exit status, where it still says one."""
LEAVING_S = 75.0
"""After what time nothing of a driver's session is left, seconds: Ray's agents take a minute."""


def kill(
    victim: str, driver: subprocess.Popen[bytes], sweep: Path, server: MLflowServer | None
) -> bool:
    """Kill somebody.

    Args:
        victim: One of `VICTIMS`.
        driver: The driver.
        sweep: Its sweep's folder.
        server: The MLflow server that it logs to.

    Returns:
        Whether there was somebody to kill.
    """
    if victim == GROUP:
        os.killpg(driver.pid, signal.SIGKILL)
    elif victim == DRIVER:
        driver.kill()
    elif victim in SIGNALS:
        driver.send_signal(signal.Signals[victim])
    elif victim == SERVER:
        assert server is not None
        server.kill()
        time.sleep(OUTAGE_S)
        server.start()
    else:
        living = hosts(sweep) if victim == HOST else _named(driver, victim)
        for pid in living[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False
    return True


def ending(victim: str, driver: subprocess.Popen[bytes]) -> tuple[float, list[str]]:
    """Wait until a driver has ended after a death.

    Returns:
        The seconds that it took, and one line for each thing that is not as it has to be.
    """
    start, problems = time.monotonic(), []
    try:
        status = driver.wait(timeout=LIMITS_S[victim] * 3)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        return time.monotonic() - start, [f"{victim}: the driver did not end"]
    seconds = time.monotonic() - start
    if seconds > LIMITS_S[victim]:
        problems.append(f"{victim}: the driver took {seconds:.1f} s to end")
    if status != STATUSES.get(victim, status):
        problems.append(f"{victim}: the driver's status is {status}, not {STATUSES[victim]}")
    if left := _left_over(driver.pid):
        problems.append(f"{victim}: still there after {LEAVING_S:.0f} s: {left}")
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
    return seconds, problems


def hosts(sweep: Path) -> list[int]:
    """The living processes of a sweep's trials that have not ended."""
    pids = set()
    for file in sweep.glob("*/result.json"):
        if (rows := read_json_lines(file)) and not rows[-1].get("done"):
            pids.add(rows[-1]["pid"])
    return sorted(pid for pid in pids if name_of(pid))


def _named(driver: subprocess.Popen[bytes], name: str) -> list[int]:
    return [pid for pid in children_of(driver.pid) if Path(name_of(pid)).name == name]


def _left_over(session: int) -> list[str]:
    """The names of a session's living processes, if some stay."""
    deadline = time.monotonic() + LEAVING_S
    while (left := _of_session(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _of_session(session: int) -> list[str]:
    found = []
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                if stat[0] != "Z" and int(stat[3]) == session:
                    found.append(name_of(int(folder.name)))
    return found
