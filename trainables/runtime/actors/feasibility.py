"""Whether a cluster could ever place what is asked of it; Ray itself would wait, without a word."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from trainables.core.errors import ConfigError

logger = logging.getLogger("trainables")

Resources = Mapping[str, float]

_NOT_SHOWN = ("node:", "memory", "object_store_memory", "bundle_group", "accelerator_type:")
_MOST_TRIED = 300  # bundles; one call within another for each
# Set on the nodes that `ray up` and KubeRay start.
_MANAGED = "ray.io/node-group"


class InfeasibleError(ConfigError):
    """A cluster can never place what a trial asks for."""


def check_cluster(bundles: Sequence[Resources], strategy: str, asked: str) -> None:
    """Refuse bundles that the cluster which is joined can never place; warn if it may grow.

    Args:
        bundles: The resources of each bundle.
        strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        asked: A sentence on who asks for them, and by which settings.

    Raises:
        InfeasibleError: saying what was asked and what the cluster has.
    """
    try:
        check_nodes(bundles, strategy, asked, live_nodes())
    except InfeasibleError as error:
        if not cluster_may_grow():
            raise
        _warn_once(f"{error}. It waits, for this cluster may get nodes")


def check_nodes(
    bundles: Sequence[Resources], strategy: str, asked: str, nodes: Sequence[Resources]
) -> None:
    """Do as `check_cluster` for nodes that are known: those that a Ray would have, say."""
    problem = placement_problem(bundles, strategy, nodes)
    if problem is not None:
        raise InfeasibleError(
            f"this can never start: {problem}. {asked} Lower these settings, or join a larger "
            "cluster"
        )


def live_nodes() -> list[dict[str, float]]:
    """Return the resources of each live node of the cluster that this process is connected to."""
    import ray  # resources are counted without it, too

    return [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def cluster_may_grow() -> bool:
    """Tell whether an autoscaler or an operator starts nodes, or one was lost and may return."""
    import ray

    return any(not node["Alive"] or _MANAGED in node["Labels"] for node in ray.nodes())


def placement_problem(
    bundles: Sequence[Resources], strategy: str, nodes: Sequence[Resources]
) -> str | None:
    """Return why bundles cannot be placed on the nodes even if these are idle, or None.

    Args:
        bundles: The resources of each bundle.
        strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        nodes: The resources of each node.
    """
    bundles = [bundle for bundle in bundles if any(bundle.values())]
    have = side_by_side(nodes) or "no node"
    for bundle in bundles:
        if not any(_fits(bundle, node) for node in nodes):
            return f"one of its processes needs {shown(bundle)}; the nodes have {have}"
    names = sorted({name for bundle in bundles for name in bundle})
    need = {name: total(bundles, name) for name in names}
    if strategy == "STRICT_PACK":
        if not any(_fits(need, node) for node in nodes):
            return f"it needs {shown(need)} on one node (STRICT_PACK); the nodes have {have}"
        return None
    for name in names:
        if need[name] > total(nodes, name) + 1e-9:
            return f"it needs {shown(need)}; the nodes have {have}"
    able = sum(any(_fits(bundle, node) for bundle in bundles) for node in nodes)
    if strategy == "STRICT_SPREAD" and len(bundles) > able:
        return f"it needs {len(bundles)} nodes (STRICT_SPREAD); there are {able}; all have {have}"
    if not _packs(bundles, nodes, exclusive=strategy == "STRICT_SPREAD"):
        return f"its processes {side_by_side(bundles)} do not fit on the nodes {have}"
    return None


def total(resources: Iterable[Resources], name: str) -> float:
    """Return the sum of one resource."""
    return sum(part.get(name, 0.0) for part in resources)


def shown(resources: Resources) -> str:
    """Return resources in words, e.g. `4 CPU, 1 GPU`, without what Ray counts by itself."""
    names = [name for name in resources if not name.startswith(_NOT_SHOWN)]
    names.sort(key=lambda name: (name not in ("CPU", "GPU"), name))  # Ray's order varies
    return ", ".join(f"{resources[n]:g} {n}" for n in names if resources[n]) or "nothing"


def side_by_side(parts: Iterable[Resources]) -> str:
    """Return several nodes or bundles in words, e.g. `(1 CPU, 1 GPU) + 3 x (4 CPU)`."""
    counts = Counter(shown(part) for part in parts)
    return " + ".join(f"({text})" if n == 1 else f"{n} x ({text})" for text, n in counts.items())


@functools.cache
def _warn_once(text: str) -> None:
    logger.warning(text)


def _fits(bundle: Resources, node: Resources) -> bool:
    return all(node.get(name, 0.0) + 1e-9 >= amount for name, amount in bundle.items())


def _packs(
    bundles: Sequence[Resources],
    nodes: Sequence[Resources],
    *,
    exclusive: bool,
    budget: int = 20_000,
) -> bool:
    """Tell whether bundles can be distributed over the nodes: exact within `budget` placements."""
    if len(bundles) > _MOST_TRIED:
        return True  # too many to try: let Ray decide
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
