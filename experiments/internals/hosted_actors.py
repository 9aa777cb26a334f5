"""Trials as members of a few processes, behind the interface that Tune has for their actors.

Tune's loop asks its `RayActorManager` for an actor of each trial and calls methods of it. Here that
"actor" is a handle that passes calls on to a `Host`, so that a trial needs no process of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import ray
from ray import tune
from ray.air.execution import ResourceManager
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.tune.execution import tune_controller

from trainables.runtime.members.host import Host

_CALLS_AT_ONCE = 1000  # of a host: each of its trials may wait for an iteration


@contextmanager
def hosted_trials(num_hosts: int, resources: Mapping[str, Any]) -> Iterator[None]:
    """Have the trials of sweeps that begin meanwhile be members of a few processes.

    Args:
        num_hosts: How many processes there are.
        resources: What each has, as Ray's options name it.
    """
    loop: Any = tune_controller
    own = loop.RayActorManager
    loop.RayActorManager = partial(HostedActors, num_hosts=num_hosts, resources=dict(resources))
    try:
        yield
    finally:
        loop.RayActorManager = own


class MemberHandle:
    """What Tune takes for the handle of a trial's actor.

    Args:
        host: The handle of the process.
        name: Of the trial there.
        made: Resolves once the trial is made.
    """

    def __init__(self, host: Any, name: str, made: Any):
        self.host, self.name, self.made = host, name, made

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__") and method not in ("__ray_ready__", "__ray_terminate__"):
            raise AttributeError(method)
        return _Method(self, method)


class _Method:
    def __init__(self, handle: MemberHandle, method: str):
        self._handle, self._method = handle, method

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        handle = self._handle
        if self._method == "__ray_ready__":
            return handle.made
        if self._method == "__ray_terminate__":
            return handle.host.end.remote(handle.name)
        return handle.host.call.remote(handle.name, self._method, args, kwargs)


class HostedActors(RayActorManager):
    """Makes a member of a host where Tune asks for an actor.

    Args:
        resource_manager: Tune's.
        num_hosts: How many processes there are.
        resources: What each has, as Ray's options name it.

    Attributes:
        place: What a trial takes of Ray's resources.
    """

    place = tune.PlacementGroupFactory([{"memory": 1}])  # nothing that counts: hosts have the CPUs

    def __init__(
        self, resource_manager: ResourceManager, num_hosts: int, resources: dict[str, Any]
    ):
        super().__init__(resource_manager=resource_manager)
        self._num_hosts, self._resources = num_hosts, resources
        self._hosts: list[Any] = [None] * num_hosts
        self._numbers = itertools.count()
        self._members: list[set[str]] = [set() for _ in range(num_hosts)]

    def add_actor(self, cls: Any, kwargs: Any, resource_request: Any, **callbacks: Any) -> Any:
        """Have a member made once there is a place; what it needs is its host's."""
        return super().add_actor(cls, kwargs, self.place, **callbacks)

    def _host(self) -> int:
        """Return the process with the fewest trials; it is started with its first one."""
        index = min(range(self._num_hosts), key=lambda i: len(self._members[i]))
        if self._hosts[index] is None:
            options = {"max_concurrency": _CALLS_AT_ONCE, **self._resources}
            self._hosts[index] = ray.remote(Host).options(**options).remote()
        return index

    def _try_start_actors(self, max_actors: int | None = None) -> int:
        """Make members of the trials that have the resources of a place."""
        started = 0
        for request, waiting in self._resource_request_to_pending_actors.items():
            while (
                waiting
                and (max_actors is None or started < max_actors)
                and self._resource_manager.has_resources_ready(request)
            ):
                acquired = self._resource_manager.acquire_resources(request)
                tracked = waiting.pop(0)
                cls, kwargs, _ = self._pending_actors_to_attrs.pop(tracked)
                member: Any = self._member(cls, kwargs)
                assert acquired is not None  # they were ready
                self._live_actors_to_ray_actors_resources[tracked] = member, acquired
                self._live_resource_cache = None
                self._await_start(tracked)
                self._enqueue_cached_actor_tasks(tracked_actor=tracked)
                started += 1
        return started

    def _member(self, cls: Any, kwargs: dict[str, Any]) -> MemberHandle:
        index = self._host()
        name = f"member_{next(self._numbers)}"
        self._members[index].add(name)
        host = self._hosts[index]
        trainable = cls.__ray_metadata__.modified_class
        return MemberHandle(host, name, host.make.remote(name, trainable, kwargs))

    def _await_start(self, tracked: Any) -> None:
        handle, _ = self._live_actors_to_ray_actors_resources[tracked]
        self._tracked_actors_to_state_futures[tracked].add(handle.made)
        self._actor_state_events.track_future(
            future=handle.made,
            on_result=lambda _: self._actor_start_resolved(
                tracked_actor=tracked, future=handle.made
            ),
            on_error=lambda error: self._actor_start_failed(tracked_actor=tracked, exception=error),
        )

    def _try_kill_actor(self) -> bool:
        """End the member of a trial that Tune ends by force."""
        if not self._live_actors_to_kill:
            return False
        tracked = self._live_actors_to_kill.pop()
        handle, _ = self._live_actors_to_ray_actors_resources[tracked]
        handle.host.end.remote(handle.name)
        self._cleanup_actor_futures(tracked)
        self._actor_stop_resolved(tracked)
        return True

    def _cleanup_actor(self, tracked_actor: Any) -> None:
        handle, _ = self._live_actors_to_ray_actors_resources[tracked_actor]
        super()._cleanup_actor(tracked_actor)
        for members in self._members:
            members.discard(handle.name)

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        if isinstance(exception, ray.exceptions.RayActorError):
            self._forget_host(tracked_actor_task._tracked_actor)
        super()._actor_task_failed(tracked_actor_task, exception)

    def _actor_start_failed(self, tracked_actor: Any, exception: Exception) -> None:
        if isinstance(exception, ray.exceptions.RayActorError):
            self._forget_host(tracked_actor)
        super()._actor_start_failed(tracked_actor, exception)

    def _forget_host(self, tracked: Any) -> None:
        """Have another process take the place of one that has died."""
        live = self._live_actors_to_ray_actors_resources.get(tracked)
        if live is not None and live[0].host in self._hosts:
            self._hosts[self._hosts.index(live[0].host)] = None

    def cleanup(self) -> None:
        """End all processes and give back what was acquired; it can be used anew."""
        for host in self._hosts:
            if host is not None:
                ray.kill(host)
        for _, acquired in self._live_actors_to_ray_actors_resources.values():
            self._resource_manager.free_resources(acquired_resource=acquired)
        for request, waiting in self._resource_request_to_pending_actors.items():
            for _ in waiting:
                self._resource_manager.cancel_resource_request(request)
        self._resource_manager.clear()
        self.__init__(  # type: ignore[misc]  # as Tune's own does
            self._resource_manager, self._num_hosts, self._resources
        )
