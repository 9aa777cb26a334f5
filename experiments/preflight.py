"""What can be known to fail before the first trial: storage and resources."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.errors import PreflightError
from experiments.paths import command_line
from experiments.schema import SweepSpec
from experiments.shared_storage import nodes_without
from experiments.sweep_lock import LOCK_FILE
from search_spaces.space import SearchSpace
from trainables.runtime.feasibility import InfeasibleError, check_cluster, check_nodes


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
