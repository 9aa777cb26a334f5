"""What is asked of the server of workers, and what Ray's own programs have to do."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import ray

from experiments.workers import server, setup_worker

CONTEXT = "--serialized-runtime-env-context="


def context(**asked: Any) -> list[str]:
    """Arguments of a worker whose environment is to be set: what Ray itself writes."""
    whole: dict[str, Any] = {
        "command_prefix": [],
        "env_vars": {},
        "py_executable": sys.executable,
        "override_worker_entrypoint": None,
        "java_jars": [],
    }
    return ["--node-id=1", CONTEXT + json.dumps({**whole, **asked}), "--language=PYTHON"]


def test_the_programs_of_rays_that_it_stands_for_are_there() -> None:
    workers = setup_worker.rays_workers()
    assert workers == Path(ray.__file__).parent / "_private" / "workers"
    assert (workers / "default_worker.py").is_file()
    assert (workers / Path(setup_worker.__file__).name).is_file()  # by which a raylet knows it


def test_variables_are_set_as_ray_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "there")
    variables = setup_worker._variables(context(env_vars={"A": "1", "B": "$HERE/${HERE}:b"}))
    assert variables is not None
    assert (variables["A"], variables["B"], variables["HERE"]) == ("1", "there/there:b", "there")
    assert "A" not in (setup_worker._variables(["--node-id=1"]) or {})


@pytest.mark.parametrize(
    "asked",
    [
        {"command_prefix": ["cd", "/elsewhere", "&&"]},
        {"py_executable": "/usr/bin/another-python"},
        {"override_worker_entrypoint": "/in/a/container.py"},
    ],
)
def test_what_is_more_than_variables_is_left_to_ray(asked: dict[str, Any]) -> None:
    assert setup_worker._variables(context(**asked)) is None


def test_a_worker_is_given_the_arguments_of_its_program() -> None:
    assert setup_worker._plain([*context(), "--webui="]) == ["--node-id=1", "--webui="]


@pytest.mark.parametrize("path", ["", "/no/such/socket"])
def test_nobody_is_asked_where_no_server_listens(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setup_worker.SOCKET, path)
    assert not setup_worker._forked([], {})


@pytest.mark.parametrize("answer", [b"0", b""])
def test_a_server_that_refuses_or_dies_is_no_worker(
    answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "s")
    monkeypatch.setenv(setup_worker.SOCKET, path)
    asked: list[Any] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(server._receive(connection, 3))
            if answer:
                connection.send(answer)

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        assert not setup_worker._forked(["--a=1"], {"LONG": "x" * 100_000})
        serving.join()
    [(message, files)] = asked
    assert message["arguments"] == ["--a=1"] and message["variables"] == {"LONG": "x" * 100_000}
    assert message["folder"] == str(Path.cwd()) and len(files) == 3


def test_what_counts_while_a_process_starts() -> None:
    variables = {"RAY_JOB_ID": "1", "PYTHONPATH": "a", "OMP_NUM_THREADS": "2", "HOME": "h", "A": ""}
    assert set(server._read_at_start(variables)) == {"RAY_JOB_ID", "PYTHONPATH", "OMP_NUM_THREADS"}


def test_what_cannot_be_imported_is_left_to_workers() -> None:
    server._import_all(["no_such_module_here", "json"])


def test_forks_draw_ids_of_their_own() -> None:
    def drawn_in_a_fork() -> set[bytes]:
        server._skip_ids()
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, b"".join(ray.ObjectRef.from_random().binary() for _ in range(100)))
            os._exit(0)
        os.wait()
        size = len(ray.ObjectRef.from_random().binary())
        ids = os.read(reading, 100 * size)
        os.close(reading), os.close(writing)
        return {ids[i : i + size] for i in range(0, len(ids), size)}

    forks = [drawn_in_a_fork() for _ in range(3)]
    assert [len(ids) for ids in forks] == [100] * 3
    assert len(set.union(*forks)) == 300
