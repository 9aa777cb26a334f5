"""Workers that are forks of a process which has imported what they need."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from experiments.cluster.session import ray_session, sweep_environment
from experiments.spec.schema import Resources
from experiments.workers import setup_worker, warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux only")
REAL_WORKERS = True  # the tests start their own
BASHS_OWN = {"_", "OLDPWD", "PS1", "SHLVL"}  # Ray sets variables by way of bash


@ray.remote(num_cpus=0)  # here: a class that is its module's is sent by its name alone
class _Told:
    """Tells about its process."""

    def __init__(self) -> None:
        self.has_torch = "torch" in sys.modules  # this class does not import it

    def process(self) -> dict[str, Any]:
        """What a process has of the one that started it."""
        return {
            "folder": os.getcwd(),
            "is_leader": os.getpgrp() == os.getpid(),
            "niceness": os.nice(0),
            "blocked": {int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])},
            "child signal": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
            "input": Path("/proc/self/fd/0").resolve(),
            "variables": set(os.environ),
            "A": os.environ.get("A"),
            "collects": gc.isenabled(),
            "program": Path(sys.argv[0]).name,
        }

    def about(self) -> tuple[int, bool, dict[str, float]]:
        """Its process id, whether it had PyTorch from the first, and a number of each generator."""
        import numpy as np
        import torch

        drawn = {"numpy": float(np.random.random()), "torch": float(torch.rand(()))}
        return os.getpid(), self.has_torch, {**drawn, "random": random.random()}


Told: Any = _Told


@pytest.fixture(scope="module")
def _server() -> Iterator[None]:
    """A server of this module's, which the other modules' is put back for."""
    before, warm._server = warm._server, None
    yield
    if warm._server is not None:
        warm._server.control.close()
    warm._server = before


@pytest.fixture(scope="module")
def _ray(_server: None) -> Iterator[None]:
    """A Ray for those tests, at the end, that need none of their own."""
    with sweep_environment(), ray_session(Resources(num_cpus=2)):
        yield


def ask(name: str, **options: Any) -> Any:
    actor = Told.options(**options).remote()
    return ray.get(getattr(actor, name).remote(), timeout=120)


def test_the_server_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import os, time\nfrom experiments.workers import setup_worker, warm\nwarm.start_server()\n"
        "print(warm._server.folder, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        folder = Path(driver.stdout.readline().strip())
        assert folder.is_dir()
        driver.kill()
    wait_until(lambda: not folder.exists())


@pytest.mark.full("test_a_worker_is_a_fork_of_its_own")
def test_without_the_server_ray_starts_its_workers(
    _server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "_server", None)
    with sweep_environment(), ray_session(Resources(num_cpus=2)):
        assert ask("about")[1]
        running = warm._server
        assert running is not None
        parent = int(Path(f"/proc/{ask('about')[0]}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(parent, signal.SIGKILL)
        assert not ask("about")[1]
    running.control.close()


@pytest.mark.full("test_a_worker_is_a_fork_of_its_own")
def test_a_fork_has_what_a_process_has(_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"env_vars": {"A": "1"}}
    with sweep_environment(), ray_session(Resources(num_cpus=2)):
        assert ask("about", runtime_env=variables)[1]
        fork = ask("process", runtime_env=variables)
    monkeypatch.setattr(warm, "_server", None)
    monkeypatch.setenv(warm.SWITCH, "0")
    with sweep_environment(), ray_session(Resources(num_cpus=2)):
        assert not ask("about", runtime_env=variables)[1]
        process = ask("process", runtime_env=variables)
    assert process["A"] == "1" and process["is_leader"]
    differ = process.pop("variables") ^ fork.pop("variables")
    assert differ - BASHS_OWN == {warm.SWITCH, setup_worker.SOCKET}
    assert fork == process


def test_a_worker_is_a_fork_of_its_own(_ray: None) -> None:
    actors = [Told.remote() for _ in range(2)]
    told = ray.get([actor.about.remote() for actor in actors], timeout=120)
    (first, warm_1, numbers_1), (second, warm_2, numbers_2) = told
    assert warm_1 and warm_2
    assert first != second and not {*numbers_1.values()} & {*numbers_2.values()}
    assert Path(f"/proc/{first}/cmdline").read_text().startswith("ray::")
    assert ray.get(actors[0].process.remote(), timeout=120)["collects"]


def test_the_end_of_a_worker_is_no_others(_ray: None) -> None:
    doomed, other = Told.remote(), Told.remote()
    pid, _, _ = ray.get(doomed.about.remote(), timeout=120)
    before = ray.get(other.about.remote(), timeout=120)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(doomed.about.remote(), timeout=60)
    ray.kill(Told.remote())
    time.sleep(1)  # a raylet ends a process group a little later
    assert ray.get(other.about.remote(), timeout=60)[0] == before[0]
    assert ask("about")[1]  # the server is there


@pytest.mark.full("test_a_worker_is_a_fork_of_its_own")
def test_what_is_read_at_a_start_is_no_fork(_ray: None) -> None:
    threads = {"env_vars": {"OMP_NUM_THREADS": "3"}}
    assert not ask("about", runtime_env=threads)[1]
    assert ask("about")[1]


def wait_until(holds: Any, timeout: float = 60) -> None:
    """Wait for what happens in other processes."""
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
