"""Trials as members of a few processes, behind the interface that Tune has for their actors.

Tune's loop asks its `RayActorManager` for an actor of each trial and calls methods of it. Here that
"actor" is a handle that passes calls on to a `Host`, so that a trial needs no process of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ray
from ray import tune
from ray.air.execution import ResourceManager
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.tune.execution import tune_controller

from experiments.internals.hosts import Hosts
from trainables.core.errors import ConfigError


class HostedTuner(tune.Tuner):
    """A Tuner whose trials are members of a few processes.

    Args:
        hosts: The processes; they end with the sweep.
        settings: As `tune.Tuner` takes them.
    """

    def __init__(self, hosts: Hosts, **settings: Any):
        super().__init__(**settings)
        self._hosts = hosts

    @classmethod
    def of(cls, tuner: tune.Tuner, hosts: Hosts) -> HostedTuner:
        """Return what a Tuner is, with its trials in `hosts`."""
        return cls(hosts, _tuner_internal=tuner._local_tuner)

    def fit(self) -> tune.ResultGrid:
        """Run the sweep."""
        loop: Any = tune_controller
        own = loop.RayActorManager
        loop.RayActorManager = partial(HostedActors, hosts=self._hosts)
        try:
            return super().fit()
        finally:
            loop.RayActorManager = own
            self._hosts.end()


class HostedActors(RayActorManager):
    """Makes a member of a host where Tune asks for an actor.

    Args:
        resource_manager: Tune's.
        hosts: The processes.

    Attributes:
        place: What a trial takes of Ray's resources.
    """

    place = tune.PlacementGroupFactory([{"memory": 1}])  # nothing that counts: hosts have the CPUs

    def __init__(self, resource_manager: ResourceManager, hosts: Hosts):
        super().__init__(resource_manager=resource_manager)
        self._hosts = hosts

    @property
    def has_place(self) -> bool:
        """Whether another trial could begin at once."""
        return bool(self._hosts.open())

    def next(self, timeout: float | None = None) -> bool:
        """See Tune's: start what is to start, and wait for what happens next."""
        for start in self._hosts.start():  # so that the loop learns that there are places now
            self._actor_state_events.track_future(start, on_result=_nothing, on_error=_nothing)
        return super().next(timeout)

    def add_actor(self, cls: Any, kwargs: Any, resource_request: Any, **callbacks: Any) -> Any:
        """Have a member made once there is a place; what it needs is its host's.

        Raises:
            ConfigError: It needs something else.
        """
        trainable, needed = cls.__ray_metadata__.modified_class, self._hosts.resources
        bundles = [dict(bundle) for bundle in resource_request.bundles]
        if bundles != [needed] * getattr(trainable, "parallel", 1):
            raise ConfigError(
                f"a trial asks for {bundles}, and the processes that trials share have {needed} "
                "each: trials with trial_batching are to ask for the same"
            )
        return super().add_actor(cls, kwargs, self.place, **callbacks)

    def _try_start_actors(self, max_actors: int | None = None) -> int:
        """Make members of the trials that have the resources of a place."""
        started = 0
        for request, waiting in self._resource_request_to_pending_actors.items():
            while (
                waiting
                and self.has_place
                and (max_actors is None or started < max_actors)
                and self._resource_manager.has_resources_ready(request)
            ):
                acquired = self._resource_manager.acquire_resources(request)
                tracked = waiting.pop(0)
                cls, kwargs, _ = self._pending_actors_to_attrs.pop(tracked)
                trainable = cls.__ray_metadata__.modified_class
                member: Any = self._hosts.member(trainable, kwargs)
                assert acquired is not None  # they were ready
                self._live_actors_to_ray_actors_resources[tracked] = member, acquired
                self._live_resource_cache = None
                self._await_start(tracked)
                self._enqueue_cached_actor_tasks(tracked_actor=tracked)
                started += 1
        return started

    def _await_start(self, tracked: Any) -> None:
        member: Any = self._live_actors_to_ray_actors_resources[tracked][0]
        made = member.made
        self._tracked_actors_to_state_futures[tracked].add(made)
        self._actor_state_events.track_future(
            future=made,
            on_result=lambda _: self._actor_start_resolved(tracked_actor=tracked, future=made),
            on_error=lambda error: self._actor_start_failed(tracked_actor=tracked, exception=error),
        )

    def _try_kill_actor(self) -> bool:
        """End the process of a trial that Tune ends by force."""
        if not self._live_actors_to_kill:
            return False
        tracked = self._live_actors_to_kill.pop()
        member: Any = self._live_actors_to_ray_actors_resources[tracked][0]
        # It has not ended when told to, so that nobody else there gets on. They begin anew.
        ray.kill(member.host)
        self._cleanup_actor_futures(tracked)
        self._actor_stop_resolved(tracked)
        return True

    def _cleanup_actor(self, tracked_actor: Any) -> None:
        member: Any = self._live_actors_to_ray_actors_resources[tracked_actor][0]
        super()._cleanup_actor(tracked_actor)
        self._hosts.left(member.name)

    def cleanup(self) -> None:
        """End all processes and give back what was acquired; it can be used anew."""
        self._hosts.end()
        for _, acquired in self._live_actors_to_ray_actors_resources.values():
            self._resource_manager.free_resources(acquired_resource=acquired)
        for request, waiting in self._resource_request_to_pending_actors.items():
            for _ in waiting:
                self._resource_manager.cancel_resource_request(request)
        self._resource_manager.clear()
        # As Tune's own does.
        self.__init__(self._resource_manager, self._hosts)  # type: ignore[misc]


def _nothing(_: Any) -> None:
    """Take note of a process that is there, or is not; `Hosts` knows."""
