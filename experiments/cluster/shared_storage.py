"""Whether the nodes of a cluster see the same storage folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

TIMEOUT_S = 60.0


def nodes_without(storage: Path, *, same_machine_too: bool = False) -> list[str]:
    """Addresses of the nodes that do not see a file of this machine's storage folder.

    Only those are asked that are on other machines. One that does not answer in time, which may
    be busy or starting, is not counted.

    Args:
        storage: The folder, which exists.
        same_machine_too: Whether nodes on this machine are asked, too.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.util.get_node_ip_address()
    others = [
        node
        for node in ray.nodes()
        if node["Alive"] and (same_machine_too or node["NodeManagerAddress"] != here)
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
