"""A request that no cluster node can satisfy is known before a sweep starts."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_dummy import NAME, Dummy

from analysis.reachable import check_tracking
from experiments.cluster.session import ray_session
from experiments.errors import PreflightError
from experiments.spec.schema import Resources
from experiments.sweep.load import make_spec
from experiments.sweep.preflight import (
    check_resources,
    check_storage,
)
from experiments.sweep.sweep import Sweep
from trainables.runtime.actors.feasibility import placement_problem

ONE, TWO = {"CPU": 1.0}, {"CPU": 2.0}


PLACEMENTS: list[tuple[list[dict[str, float]], str, list[dict[str, float]], str | None]] = [
    ([ONE], "PACK", [ONE], None),
    ([{}, ONE], "PACK", [ONE], None),
    ([], "PACK", [], None),
    ([TWO], "PACK", [ONE, ONE], "needs 2 CPU; the nodes have 2 x (1 CPU)"),
    ([ONE, ONE, ONE], "PACK", [TWO], "it needs 3 CPU"),
    ([{"GPU": 1.0}], "PACK", [TWO], "needs 1 GPU"),
    ([{"CPU": 1.0, "GPU": 0.5}], "PACK", [{"CPU": 1.0, "GPU": 1.0}], None),
    ([TWO, TWO, TWO], "PACK", [{"CPU": 3.0}, {"CPU": 3.0}], "do not fit"),
    ([TWO, ONE, ONE, TWO], "PACK", [{"CPU": 3.0}, {"CPU": 3.0}], None),
    ([ONE, ONE], "STRICT_PACK", [ONE, ONE], "needs 2 CPU on one node"),
    ([ONE, ONE], "STRICT_PACK", [ONE, TWO], None),
    ([ONE, ONE], "STRICT_SPREAD", [TWO], "needs 2 nodes (STRICT_SPREAD); there are 1"),
    ([ONE, ONE], "STRICT_SPREAD", [TWO, ONE], None),
    ([ONE, TWO, TWO], "STRICT_SPREAD", [ONE, ONE, {"CPU": 4.0}], "do not fit"),
    ([ONE], "SPREAD", [], "no node"),
    ([ONE] * 2000, "PACK", [{"CPU": 1000.0}] * 2, None),
    ([ONE] * 2001, "PACK", [{"CPU": 1000.0}] * 2, "it needs 2001 CPU"),
    ([ONE, {"arm": 1.0}], "PACK", [ONE, TWO], "needs 1 arm; the nodes have (1 CPU) + (2 CPU)"),
]


def test_placement() -> None:
    for bundles, strategy, nodes, problem in PLACEMENTS:
        found = placement_problem(bundles, strategy, nodes)
        assert (found is None) == (problem is None), (bundles, strategy, nodes)
        assert (problem or "") in (found or ""), (bundles, strategy, nodes)


def test_a_searched_setting_may_ask_for_too_much() -> None:
    data = {"name": "x", "trainable": NAME, "config": {"num_env_runners": 1}}
    spec = make_spec(data)
    check_resources(replace(Sweep.of(spec), trainable=Dummy), [TWO])
    searched = make_spec(
        {**data, "config": {}, "search_space": {"num_env_runners": {"grid": [0, 9]}}}
    )
    with pytest.raises(PreflightError, match="it needs 10 CPU; the nodes have"):
        check_resources(replace(Sweep.of(searched), trainable=Dummy), [TWO])


def test_a_cluster_is_not_joined_from_outside() -> None:
    """Its nodes could not see the sweep's folder."""
    with (
        pytest.raises(PreflightError, match=r"'ray://head:10001': .*--address"),
        ray_session(Resources().model_copy(update={"address": "ray://head:10001"})),
    ):
        pass


def test_storage(tmp_path: Path) -> None:
    check_storage(tmp_path / "a" / "b", tmp_path / "a" / "b" / "sweep")
    (tmp_path / "file").write_text("")
    with pytest.raises(PreflightError, match=r"file/b cannot be written: .*--storage"):
        check_storage(tmp_path / "file" / "b", tmp_path / "file" / "b" / "sweep")
    with pytest.raises(PreflightError, match="cannot be written"):
        check_storage(tmp_path / "file", tmp_path / "file" / "sweep")
    old = tmp_path / "old"
    old.mkdir()
    check_storage(tmp_path, old)  # an empty folder is no sweep
    (old / "spec.yaml").write_text("")
    with pytest.raises(PreflightError, match=r"already: continue .*`tunescape resume .*--name$"):
        check_storage(tmp_path, old)
    (old / "tuner.pkl").write_text("")
    with pytest.raises(PreflightError, match=r"already: .*--name, or delete .*--overwrite$"):
        check_storage(tmp_path, old)


def test_tracking_servers() -> None:
    assert check_tracking("sqlite:////tmp/mlflow.db") is None
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        problem = check_tracking(f"http://127.0.0.1:{port}")
        assert problem is not None and f"http://127.0.0.1:{port} cannot be reached" in problem
        problem = check_tracking(f"postgresql://user@127.0.0.1:{port}/mlflow")
        assert problem is not None and "cannot be reached" in problem


def test_a_tracking_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.reachable.TRACKING_TIMEOUT_S", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        problem = check_tracking(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert problem is not None and "cannot be reached" in problem
        assert time.monotonic() - start < 2


def test_a_server_that_answers_anything_is_reached() -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        assert check_tracking(f"http://127.0.0.1:{server.server_port}") is None
    finally:
        thread.join()
        server.server_close()
