"""Which sweeps train their trials in a few processes, several in each, and in how many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.schedulers.kind import scheduler_kind
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import is_own
from experiments.spec.trial_resources import trial_configs
from search_spaces.space import SearchSpace

PLACES = 32
"""Trials of a host at most: of more the rows of a step do not fit into a processor's cache."""


@dataclass(frozen=True)
class HostPlan:
    """The processes that trials are members of.

    Attributes:
        num_hosts: How many.
        places: Trials at a time, of all hosts.
        resources: What each host has: that of one trial.
    """

    num_hosts: int
    places: int
    resources: Mapping[str, float]

    @property
    def options(self) -> dict[str, Any]:
        """The resources as Ray's options name them."""
        return {"num_cpus": self.resources["CPU"], "num_gpus": self.resources.get("GPU", 0)}


def host_plan(
    spec: SweepSpec,
    space: SearchSpace,
    trainable: Any,
    num_trials: int,
    nodes: Sequence[Mapping[str, float]],
) -> HostPlan | str:
    """Return how trials are spread over hosts, or why each has a process of its own.

    Args:
        spec: The sweep.
        space: Its search space.
        trainable: The class of its trials.
        num_trials: How many there are.
        nodes: The resources of each node.
    """
    config_class = getattr(trainable, "config_class", None)
    if is_own(trainable) or not getattr(config_class, "learns_together", False):
        return f"updates of {trainable.__name__} are not written for several trials"
    if scheduler_kind(spec.scheduler).shares_cpus:
        return f"the scheduler {spec.scheduler.algorithm} hands out CPUs to each trial"
    requests = {
        tuple(tuple(sorted(bundle.items())) for bundle in request.bundles)
        for config in trial_configs(spec, space, trainable)
        if (request := trainable.default_resource_request(config)) is not None
    }
    if len(requests) != 1:
        return "trials ask for different resources"
    [bundles] = requests
    needed = dict(bundles[0])
    if len(bundles) > 1:
        return f"a trial has {len(bundles)} processes"
    if not set(needed) <= {"CPU", "GPU"} or not needed.get("CPU"):
        return f"a trial asks for {needed}"
    hosts = sum(
        int(min(node.get(name, 0) // amount for name, amount in needed.items() if amount))
        for node in nodes
    )
    trials = min(num_trials, spec.max_concurrent or num_trials, PLACES * max(1, hosts))
    if trials <= hosts:
        return "there is a process for each trial"
    return HostPlan(max(1, hosts), trials, needed)
