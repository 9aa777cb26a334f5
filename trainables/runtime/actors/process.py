"""Processes of actors: what they are started with, and where they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainables.core.errors import ConfigError
from trainables.runtime.actors.feasibility import check_cluster, shown
from trainables.runtime.actors.own_ray import join_or_start

_ANY_BUNDLE = -1  # Ray's way to say it


@dataclass(frozen=True)
class ActorOptions:
    """What each actor's process is started with.

    Attributes:
        num_cpus: CPUs, perhaps a fraction, as the others.
        num_gpus: GPUs that the process sees.
        resources: Custom resources of the cluster.
        env_vars: Environment variables.
        num_threads: Methods that it runs at the same time.
    """

    num_cpus: float = 1
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    num_threads: int = 1

    @property
    def needs(self) -> dict[str, float]:
        """The resources by Ray's names, without those that are 0."""
        needs = {"CPU": self.num_cpus, "GPU": self.num_gpus, **self.resources}
        return {name: amount for name, amount in needs.items() if amount}


class ActorProcesses:
    """Starts actors of a class in the trial's placement group if there is one.

    Args:
        actor_class: The class of the actor, made without arguments.
        options: What each process is started with.
    """

    def __init__(self, actor_class: type, options: ActorOptions):
        if not ray.is_initialized():
            join_or_start()
        self._group = get_current_placement_group()
        self._options = options
        self._remote_class: Any = ray.remote(actor_class)

    def start(self, bundle: int) -> Any:
        """Return a handle of a new actor, pinned to a bundle of the placement group."""
        options = self._options
        strategy: Any = "DEFAULT"
        if self._group is not None:
            strategy = PlacementGroupSchedulingStrategy(
                self._group,
                placement_group_bundle_index=bundle if options.needs else _ANY_BUNDLE,
            )
        return self._remote_class.options(
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus,
            resources=dict(options.resources) or None,
            scheduling_strategy=strategy,
            max_concurrency=options.num_threads,
            runtime_env={"env_vars": dict(options.env_vars)} if options.env_vars else None,
        ).remote()

    def check_room(self, role: str, count: int, first_bundle: int) -> None:
        """Refuse actors that do not fit into the trial's bundles, or into the cluster."""
        needs = self._options.needs
        if self._group is None:
            asked = f"It asks for {count} {role}s of {shown(needs)}."
            check_cluster([needs] * count, "PACK", asked)
        elif needs:
            _check_bundles(role, needs, count, self._group.bundle_specs, first_bundle)


def _check_bundles(
    role: str, needs: Mapping[str, float], count: int, bundles: list[dict[str, float]], first: int
) -> None:
    theirs = bundles[first : first + count]
    small = [b for b in theirs if any(b.get(name, 0) < v for name, v in needs.items())]
    if needs and (len(theirs) < count or small):
        raise ConfigError(
            f"{count} {role}s need a bundle of {dict(needs)} each from number {first} on, the "
            f"trial has {bundles}: leave its resources to default_resource_request"
        )
