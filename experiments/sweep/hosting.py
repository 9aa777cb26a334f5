"""Which sweeps train their trials in a few processes, several in each, and in how many."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainables.algorithm import Algorithm

PLACES = 32
"""Trials of a host at most: of more the rows of a step do not fit into a processor's cache."""

ENOUGH = "there is a process for each"
"""Why few trials share none."""


@dataclass(frozen=True)
class HostPlan:
    """The processes that trials are members of.

    Attributes:
        num_hosts: How many.
        places: Trials at a time, of all hosts.
        resources: What each host has: that of one trial.
        parallel: Hosts that the seeds of a trial are dealt to.
    """

    num_hosts: int
    places: int
    resources: Mapping[str, float]
    parallel: int = 1

    @property
    def options(self) -> dict[str, Any]:
        """The resources as Ray's options name them."""
        return {"num_cpus": self.resources["CPU"], "num_gpus": self.resources.get("GPU", 0)}


def host_plan(
    trainable: Any,
    configs: Iterable[Mapping[str, Any]],
    num_trials: int,
    nodes: Sequence[Mapping[str, float]],
    seeds: int = 1,
) -> HostPlan | str:
    """Return how trials are spread over hosts, or why each has a process of its own.

    It makes one trial, since what its networks and optimiser are decides.

    Args:
        trainable: The class that trains one seed of a trial.
        configs: Those of trials: the first is typical, and the others differ from it in what may
            change the resources.
        num_trials: How many trials there are at a time at most.
        nodes: The resources of each node.
        seeds: Of each trial.
    """
    if not getattr(getattr(trainable, "config_class", None), "learns_together", False):
        return f"updates of {trainable.__name__} are not written for several trials"
    configs = list(configs)
    requests = [trainable.default_resource_request(config) for config in configs]
    if any(request is None or request.bundles != requests[0].bundles for request in requests):
        return "trials ask for different resources"
    needed, *others = ({k: v for k, v in b.items() if v} for b in requests[0].bundles)
    if others:
        return f"a trial has {len(others) + 1} processes"
    if not set(needed) <= {"CPU", "GPU"} or not needed.get("CPU"):
        return f"a trial asks for {needed}"
    hosts = max(
        1, sum(int(min(node.get(name, 0) // needed[name] for name in needed)) for node in nodes)
    )
    trials = min(num_trials, max(1, PLACES // seeds) * hosts)
    if trials * seeds <= hosts:
        return ENOUGH
    if (reason := why_alone(trainable, configs[0])) is not None:
        return reason
    return HostPlan(hosts, trials, dict(needed), min(seeds, max(1, hosts // trials)))


def why_alone(trainable: type[Any], config: Mapping[str, Any]) -> str | None:
    """Return why the updates of a trial are not made together with those of others.

    None if they are.
    """
    if not issubclass(trainable, Algorithm):
        return f"{trainable.__name__} is none of Tunescape's algorithms"
    trial = trainable(config=copy.deepcopy(dict(config)))
    try:
        return trial.why_alone()
    finally:
        trial.stop()
