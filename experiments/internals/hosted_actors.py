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

from trainables.runtime.members.handle import MemberHandle
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
        # A trial trains and is told to stop, at most; and `live` takes one.
        self._options = {"max_concurrency": 2 * places + 8, **options}
        self._handles: list[Any] = [None] * count
        self._lives: list[Any] = [None] * count  # each ends with its process
        self._members: list[set[str]] = [set() for _ in range(count)]
        self._numbers = itertools.count()

    def start(self) -> None:
        """Start those that do not run, or no more."""
        lives = [life for life in self._lives if life is not None]
        over, _ = ray.wait(lives, num_returns=len(lives), timeout=0) if lives else ([], [])
        for index, life in enumerate(self._lives):
            if life is None or life in over:
                # A process that Ray gives so many CPUs would compute with as many threads.
                num_threads = max(1, int(self._options.get("num_cpus", 1)))
                host: Any = ray.remote(Host).options(**self._options).remote(index, num_threads)
                self._handles[index], self._lives[index] = host, host.live.remote()

    def member(self, trainable: Any, kwargs: dict[str, Any]) -> MemberHandle:
        """Have a trial made in the process with the fewest.

        Args:
            trainable: Its class; one that has `parallel` processes may use as many.
            kwargs: What the class is made with.
        """
        self.start()
        by_load = sorted(range(len(self._handles)), key=lambda index: len(self._members[index]))
        # In one order for all: a trial may wait for its members in hosts that come after its own.
        used = sorted(by_load[: getattr(trainable, "parallel", 1)])
        name = f"member_{next(self._numbers)}"
        for index in used:
            self._members[index].add(name)
        host, *peers = [self._handles[index] for index in used]
        return MemberHandle.make(host, name, trainable, kwargs, *peers)

    def left(self, name: str) -> None:
        """Note that a trial is gone."""
        for members in self._members:
            members.discard(name)

    def end(self) -> None:
        """End all processes; `start` starts others."""
        for index, host in enumerate(self._handles):
            if host is not None:
                ray.kill(host)
            self._handles[index] = self._lives[index] = None
            self._members[index].clear()


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
        member: Any = self._live_actors_to_ray_actors_resources[tracked][0]
        made = member.made
        self._tracked_actors_to_state_futures[tracked].add(made)
        self._actor_state_events.track_future(
            future=made,
            on_result=lambda _: self._actor_start_resolved(tracked_actor=tracked, future=made),
            on_error=lambda error: self._actor_start_failed(tracked_actor=tracked, exception=error),
        )

    def _try_kill_actor(self) -> bool:
        """End the member of a trial that Tune ends by force."""
        if not self._live_actors_to_kill:
            return False
        tracked = self._live_actors_to_kill.pop()
        member: Any = self._live_actors_to_ray_actors_resources[tracked][0]
        member.end()
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
