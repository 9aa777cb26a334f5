"""Which sweeps train their trials in a few processes, several in each, and in how many."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.errors import first_line
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
        places_each: Trials of one host at most.
        parallel: Hosts that the seeds of a trial are dealt to.
    """

    num_hosts: int
    places: int
    resources: Mapping[str, float]
    places_each: int = PLACES
    parallel: int = 1


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
    fits = [min(_times(needed[name], node.get(name, 0)) for name in needed) for node in nodes]
    hosts, each = sum(fits), max(1, PLACES // seeds)
    if hosts == 0:
        return f"no node has {needed}"
    trials = min(num_trials, each * hosts)
    if trials * seeds <= hosts:
        return ENOUGH
    if (reason := why_alone(trainable, configs[0])) is not None:
        return reason
    parallel = min(seeds, max(1, hosts // trials))
    if parallel > 1 and len(fits) > 1:
        return "the seeds of a trial are to be on one node"  # they write one checkpoint
    return HostPlan(hosts, trials, dict(needed), each, parallel)


def why_alone(trainable: type[Any], config: Mapping[str, Any]) -> str | None:
    """Return why the updates of a trial are not made together with those of others.

    None if they are.
    """
    if not issubclass(trainable, Algorithm):
        return f"{trainable.__name__} is none of Tunescape's algorithms"
    try:
        trial = trainable(config=copy.deepcopy(dict(config)))
    except Exception as error:  # of a setting, or of what only the nodes have: they will tell
        return f"a trial cannot be made here: {first_line(error)}"
    try:
        return trial.why_alone()
    finally:
        trial.stop()


def _times(amount: float, whole: float) -> int:
    """Return how many times an amount fits; ten times 0.1 in 1, although floats say 9."""
    return int(whole / amount + 1e-9)
