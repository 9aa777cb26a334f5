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

from experiments.credentials import scrubbed, without_credentials
from experiments.errors import PreflightError
from experiments.paths import command_line
from experiments.schema import SweepSpec
from experiments.shared_storage import nodes_without
from experiments.sweep_lock import LOCK_FILE
from search_spaces.space import SearchSpace
from trainables.runtime.feasibility import InfeasibleError, check_cluster, check_nodes

TRACKING_TIMEOUT_S = 4.0
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}


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
    trainable: Any,
    spec: SweepSpec,
    space: SearchSpace,
    nodes: Sequence[dict[str, float]] | None = None,
) -> None:
    """See that the nodes could hold one trial of each size that the search may ask for.

    Ray would wait for ever for a placement group that cannot be placed.

    Args:
        trainable: The trainable class; its `default_resource_request` says what a trial needs.
        spec: The sweep.
        space: Its search space: a searched setting may change the request.
        nodes: The resources of each node; None: those of the Ray that is joined, which gives a
            warning only if it may get more of them.

    Raises:
        PreflightError: A request that can never be met, with the numbers.
    """
    for config in trial_configs(spec, space):
        try:
            request = trainable.default_resource_request(config)
            if request is None:
                continue
            asked = (request.bundles, request.strategy, trainable.resource_help(config))
            if nodes is None:
                check_cluster(*asked)
            else:
                check_nodes(*asked, nodes)
        except InfeasibleError as error:
            raise PreflightError(f"{error} (--address)") from None


def check_shared(storage: Path) -> None:
    """See that all nodes of the Ray that is joined share the storage folder.

    Raises:
        PreflightError: Some have another one at that path, or none.
    """
    missing = nodes_without(storage)
    if missing:
        raise PreflightError(
            f"the storage folder {storage} of this machine is not that of the nodes "
            f"{', '.join(missing)}: trials there could not save checkpoints. Choose one that all "
            "nodes share, e.g. a mounted one, with --storage"
        )


def trial_resources(trainable: Any, spec: SweepSpec, space: SearchSpace) -> dict[str, float]:
    """What the first configuration's trial needs in all."""
    config = next(iter(trial_configs(spec, space)))
    request = trainable.default_resource_request(config)
    return dict(request.required_resources) if request is not None else {"CPU": 1.0}


def trial_configs(spec: SweepSpec, space: SearchSpace) -> Iterable[dict[str, Any]]:
    """The fixed config, with each searched setting at each of its extremes in turn."""
    yield dict(spec.config)
    for _, probe in space.probes():
        yield {**spec.config, **probe}
