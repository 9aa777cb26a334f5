"""What can be known to fail before the first trial: storage, resources, the tracking server."""

from __future__ import annotations

import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from experiments.cluster import shown, total
from experiments.credentials import scrubbed, without_credentials
from experiments.errors import PreflightError
from experiments.paths import command_line
from experiments.schema import SweepSpec
from experiments.sweep_lock import LOCK_FILE
from search_spaces.space import SearchSpace

TRACKING_TIMEOUT_S = 4.0
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}

Bundles = Sequence[dict[str, float]]


def check_storage(storage: Path, sweep_dir: Path) -> None:
    """Make the storage folder, and see that files can be written and no sweep is overwritten.

    Raises:
        PreflightError: It cannot be written, or the sweep's folder holds something already.
    """
    if sweep_dir.exists() and (
        not sweep_dir.is_dir() or any(path.name != LOCK_FILE for path in sweep_dir.iterdir())
    ):
        raise PreflightError(
            f"{sweep_dir} exists already and is never overwritten: continue that sweep with "
            f"`{command_line('resume', sweep_dir)}`, or choose another name with --name"
        )
    try:
        storage.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=storage, prefix=".tunescape-"):
            pass
    except OSError as error:
        raise PreflightError(
            f"the storage folder {storage} cannot be written: {error.strerror}; "
            "choose another with --storage"
        ) from None


def check_tracking(tracking_uri: str) -> str | None:
    """One line on why a tracking server cannot be used, or None. Takes a few seconds at most."""
    reason = why_unreachable(tracking_uri)
    if reason is None:
        return None
    return f"the MLflow tracking server {scrubbed(tracking_uri)} cannot be reached: {reason}"


def why_unreachable(uri: str) -> str | None:
    """Why nobody answers at a server's or a database's URI, or None. Takes some seconds at most."""
    parts = urlsplit(uri)
    try:
        if parts.scheme in ("http", "https"):
            health = without_credentials(uri).rstrip("/") + "/health"
            with urllib.request.urlopen(health, timeout=TRACKING_TIMEOUT_S):
                return None
        host, port = parts.hostname, parts.port
        if host is None:
            return None
        scheme = parts.scheme.partition("+")[0]
        if port or scheme in _DATABASE_PORTS:
            address = (host, port or _DATABASE_PORTS[scheme])
            socket.create_connection(address, timeout=TRACKING_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return None  # somebody answers: whether we may write is MLflow's to say
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)
    return None


def check_resources(
    trainable: Any, spec: SweepSpec, space: SearchSpace, nodes: Sequence[dict[str, float]]
) -> None:
    """See that the nodes could hold one trial of each size that the search may ask for.

    Ray would wait for ever for a placement group that cannot be placed.

    Args:
        trainable: The trainable class; its `default_resource_request` says what a trial needs.
        spec: The sweep.
        space: Its search space: a searched setting may change the request.
        nodes: The resources of each node.

    Raises:
        PreflightError: A request that can never be met, with the numbers.
    """
    for config in trial_configs(spec, space):
        request = trainable.default_resource_request(config)
        if request is None:
            continue
        bundles = [dict(bundle) for bundle in request.bundles]
        problem = placement_problem(bundles, request.strategy, nodes)
        if problem:
            raise PreflightError(
                f"a trial can never start: {problem}. Lower config.num_env_runners or the CPUs and "
                "GPUs per process, or join a larger cluster with --address"
            )


def trial_resources(trainable: Any, spec: SweepSpec, space: SearchSpace) -> dict[str, float]:
    """What the first configuration's trial needs in all."""
    config = next(iter(trial_configs(spec, space)))
    request = trainable.default_resource_request(config)
    return dict(request.required_resources) if request is not None else {"CPU": 1.0}


def placement_problem(bundles: Bundles, strategy: str, nodes: Bundles) -> str | None:
    """Why the bundles cannot be placed on the nodes even if these are idle; None if they can.

    Args:
        bundles: The resources of each bundle.
        strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        nodes: The resources of each node.
    """
    bundles = [bundle for bundle in bundles if any(bundle.values())]
    have = " + ".join(f"({shown(node)})" for node in nodes) or "no node"
    for bundle in bundles:
        if not any(_fits(bundle, node) for node in nodes):
            return f"one of its processes needs {shown(bundle)}; the nodes have {have}"
    names = sorted({name for bundle in bundles for name in bundle})
    need = {name: total(list(bundles), name) for name in names}
    if strategy == "STRICT_PACK":
        if not any(_fits(need, node) for node in nodes):
            return f"it needs {shown(need)} on one node; the nodes have {have}"
        return None
    for name in names:
        if need[name] > total(list(nodes), name) + 1e-9:
            return f"it needs {shown(need)}; the nodes have {have}"
    if strategy == "STRICT_SPREAD" and len(bundles) > len(nodes):
        return f"it needs {len(bundles)} nodes; there are {len(nodes)}"
    if not _packs(bundles, nodes, exclusive=strategy == "STRICT_SPREAD"):
        parts = " + ".join(f"({shown(bundle)})" for bundle in bundles)
        return f"its processes {parts} do not fit on the nodes {have}"
    return None


def trial_configs(spec: SweepSpec, space: SearchSpace) -> Iterable[dict[str, Any]]:
    """The fixed config, with each searched setting at each of its extremes in turn."""
    yield dict(spec.config)
    for _, probe in space.probes():
        yield {**spec.config, **probe}


def _fits(bundle: dict[str, float], node: dict[str, float]) -> bool:
    return all(node.get(name, 0.0) + 1e-9 >= amount for name, amount in bundle.items())


def _packs(bundles: Bundles, nodes: Bundles, *, exclusive: bool, budget: int = 20_000) -> bool:
    """Whether the bundles can be distributed over the nodes: exact within `budget` placements."""
    ordered = sorted(bundles, key=lambda bundle: -sum(bundle.values()))
    free = [dict(node) for node in nodes]
    used = [False] * len(free)
    left = budget

    def place(index: int) -> bool:
        nonlocal left
        if index == len(ordered):
            return True
        tried: list[dict[str, float]] = []
        for number, node in enumerate(free):
            if (exclusive and used[number]) or not _fits(ordered[index], node) or node in tried:
                continue  # an equal node would fail in the same way
            left -= 1
            if left <= 0:
                return True  # too many to try: let Ray decide
            tried.append(dict(node))
            for name, amount in ordered[index].items():
                node[name] -= amount
            used[number] = True
            if place(index + 1):
                return True
            used[number] = False
            for name, amount in ordered[index].items():
                node[name] += amount
        return False

    return place(0)
