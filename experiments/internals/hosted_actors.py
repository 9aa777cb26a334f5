"""Trials as members of a few processes, behind the interface that Tune has for their actors.

Tune's loop asks its `RayActorManager` for an actor of each trial and calls methods of it. Here that
"actor" is a handle that passes calls on to a `Host`, so that a trial needs no process of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import ray
from ray import tune
from ray.air.execution import ResourceManager
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.tune.execution import tune_controller

from trainables.runtime.members.host import Host


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


class Hosts:
    """The processes that trials are members of. They start side by side.

    Args:
        count: How many there are.
        options: What each has, as Ray's options name it.
        places: Trials of one at most.
    """

    def __init__(self, count: int, options: Mapping[str, Any], places: int):
        # A trial trains and is told to stop, at most.
        self._options = {"max_concurrency": 2 * places + 8, **options}
        self._handles: list[Any] = [None] * count
        self._members: list[set[str]] = [set() for _ in range(count)]
        self._numbers = itertools.count()

    def start(self) -> None:
        """Start those that do not run."""
        for index, handle in enumerate(self._handles):
            if handle is None:
                self._handles[index] = ray.remote(Host).options(**self._options).remote(index)

    def member(self, trainable: Any, kwargs: dict[str, Any]) -> MemberHandle:
        """Have a trial made in the process with the fewest.

        Args:
            trainable: Its class.
            kwargs: What the class is made with.
        """
        self.start()
        index = min(range(len(self._handles)), key=lambda index: len(self._members[index]))
        name = f"member_{next(self._numbers)}"
        self._members[index].add(name)
        host = self._handles[index]
        return MemberHandle(host, name, host.make.remote(name, trainable, kwargs))

    def left(self, member: MemberHandle) -> None:
        """Note that a trial is gone."""
        for members in self._members:
            members.discard(member.name)

    def died(self, member: MemberHandle) -> None:
        """Have another process take the place of a member's, which has died."""
        if member.host in self._handles:
            self._handles[self._handles.index(member.host)] = None

    def end(self) -> None:
        """End all processes; `start` starts others."""
        for index, host in enumerate(self._handles):
            if host is not None:
                ray.kill(host)
            self._handles[index] = None
            self._members[index].clear()


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
        hosts: The processes.

    Attributes:
        place: What a trial takes of Ray's resources.
    """

    place = tune.PlacementGroupFactory([{"memory": 1}])  # nothing that counts: hosts have the CPUs

    def __init__(self, resource_manager: ResourceManager, hosts: Hosts):
        super().__init__(resource_manager=resource_manager)
        self._hosts = hosts

    def add_actor(self, cls: Any, kwargs: Any, resource_request: Any, **callbacks: Any) -> Any:
        """Have a member made once there is a place; what it needs is its host's."""
        return super().add_actor(cls, kwargs, self.place, **callbacks)

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
        self._hosts.left(handle)

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
        if live is not None:
            self._hosts.died(live[0])

    def cleanup(self) -> None:
        """End all processes and give back what was acquired; it can be used anew."""
        self._hosts.end()
        for _, acquired in self._live_actors_to_ray_actors_resources.values():
            self._resource_manager.free_resources(acquired_resource=acquired)
        for request, waiting in self._resource_request_to_pending_actors.items():
            for _ in waiting:
                self._resource_manager.cancel_resource_request(request)
        self._resource_manager.clear()
        self.__init__(self._resource_manager, self._hosts)  # type: ignore[misc]  # as Tune's own does
