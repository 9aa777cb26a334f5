"""What can be known to fail before the first trial: storage and resources."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.errors import PreflightError
from experiments.output_files import why_not_writable
from experiments.search.study_file import check_study_file
from experiments.spec.search_schema import OptunaSection
from experiments.spec.trial_resources import trial_configs
from experiments.sweep.used_folder import check_unused
from experiments.tracking.store import check_store
from trainables.runtime.actors.feasibility import InfeasibleError, check_cluster, check_nodes
from trainables.runtime.actors.own_ray import LOOPBACK

if TYPE_CHECKING:
    from experiments.sweep.sweep import Sweep

TIMEOUT_S = 60.0  # for the nodes of a cluster to say whether they see a file


def check_places(sweep: Sweep) -> None:
    """See that every place on this machine to which a sweep writes is its own. Nothing is left.

    Raises:
        PreflightError: A place cannot be written, or holds something else.
    """
    problem = why_not_writable(sweep.folder)
    if problem is not None:
        raise PreflightError(
            f"the storage folder {sweep.storage}: {problem}; choose another with --storage"
        )
    if sweep.spec.mlflow.enabled:
        check_store(sweep.tracking_uri)
    search = sweep.spec.search
    if isinstance(search, OptunaSection) and search.study_storage is not None:
        check_study_file(search.study_storage)


def check_storage(storage: Path, folder: Path) -> None:
    """Make the storage folder, and see that files can be written and no sweep is overwritten.

    Raises:
        PreflightError: It cannot be written, or the sweep's folder holds something already.
    """
    check_unused(folder)
    try:
        storage.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=storage, prefix=".tunescape-"):
            pass
    except OSError as error:
        raise PreflightError(
            f"the storage folder {storage} cannot be written: {error.strerror}; "
            "choose another with --storage"
        ) from None


def check_resources(sweep: Sweep, nodes: Sequence[dict[str, float]] | None = None) -> None:
    """See that the nodes could hold one trial of each size that the search may ask for.

    Ray would wait for ever for a placement group that cannot be placed.

    Args:
        sweep: The sweep, whose trainable says in `default_resource_request` what a trial needs; a
            searched setting may change that.
        nodes: The resources of each node; None: those of the Ray that is joined, which gives a
            warning only if it may get more of them.

    Raises:
        PreflightError: A request that can never be met, with the numbers.
    """
    trainable = sweep.trainable
    for config in trial_configs(sweep.spec, sweep.space, trainable):
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


def nodes_without(storage: Path, *, same_machine_too: bool = False) -> list[str]:
    """Return the addresses of the nodes that do not see a file of this machine's storage folder.

    Only those are asked that are on other machines. One that does not answer in time, which may
    be busy or starting, is not counted.

    Args:
        storage: The folder, which exists.
        same_machine_too: Whether nodes on this machine are asked, too.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = (LOOPBACK, ray.util.get_node_ip_address())
    others = [
        node
        for node in ray.nodes()
        if node["Alive"] and (same_machine_too or node["NodeManagerAddress"] not in here)
    ]
    if not others:
        return []
    sees = ray.remote(num_cpus=0)(_exists)
    with tempfile.NamedTemporaryFile(dir=storage, prefix=".tunescape-") as marker:
        asked = {
            sees.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(marker.name): node["NodeManagerAddress"]
            for node in others
        }
        answered, late = ray.wait(list(asked), num_returns=len(asked), timeout=TIMEOUT_S)
        missing = [asked[answer] for answer in answered if not ray.get(answer)]
    for question in late:
        ray.cancel(question)
    return sorted(set(missing))


def _exists(path: str) -> bool:
    return Path(path).exists()
