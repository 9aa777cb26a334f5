"""`RemoteWorkers`: a group of workers in actors inside the trial's placement group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import ray

from trainables.core.config.config import AlgorithmConfig
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.bundles import Bundles
from trainables.runtime.actors.faults import FaultTolerance, FaultTolerantActors
from trainables.runtime.actors.group import ActorFailure, ActorGroup, Reply
from trainables.runtime.actors.process import ActorOptions
from trainables.runtime.actors.worker_actor import change_made_policies
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.workers import R, Worker, WorkerGroup

T = TypeVar("T")


class RemoteWorkers(WorkerGroup[R]):
    """The part of a group that is about its actors, each with copies of the learner's policies.

    The class of the actors has methods `build`, `ping`, and `call(function, version, states)`.
    One that fails (dies, does not answer in time, or has an environment that raises) is handled as
    the `fault_tolerance` settings say.
    """

    _role: ClassVar[str]  # of `Bundles`
    _num_threads: ClassVar[int] = 1  # methods that an actor runs at the same time

    def _start(self, actor_class: type, work: str, existing: ActorGroup | None) -> None:
        """Start the actors; they are built by and by.

        Args:
            actor_class: The class of the actors.
            work: The method that is their work.
            existing: Actors of another config whose processes fit this one.
        """
        config, bundles = self._config, Bundles(self._config)
        role = bundles.roles[self._role]
        if existing is None:
            self._group = ActorGroup(
                actor_class,
                role.count,
                self._build_arguments,
                role=role.title,
                options=bundles.options(self._role, self._num_threads),
                first_bundle=bundles.first_index(self._role),
                build_timeout_s=config.env_runner_restore_timeout_s,
            )
        else:
            self._group = existing
            existing.rebuild(self._build_arguments)
        faults = FaultTolerance.of(config, role.title, work)
        self._actors = FaultTolerantActors(
            self._group, faults, config.env_runner_health_probe_timeout_s, self._welcome
        )
        self._published: Any = None
        self._has_published: dict[int, int] = {}  # actors that were sent it, and which process

    @abstractmethod
    def _build_arguments(self, index: int, num_restarts: int) -> tuple[Any, ...]:
        """Return the arguments of an actor's `build`."""

    # ------------------------------------------------------------------ health

    @property
    def _healthy(self) -> list[int]:
        return self._group.healthy

    @property
    def _restarts(self) -> list[int]:
        return [self._group.restarts(index) for index in range(1, len(self._group) + 1)]

    def probe(self) -> list[int]:
        return self._actors.probe()

    def restore(self, *, wait: bool = True) -> list[int]:
        return self._actors.restore(wait=wait)

    def _welcome(self, indices: list[int]) -> None:
        """Tell of the actors that have come to life again."""
        if self.on_recreated is not None:
            self.on_recreated(indices)

    # ------------------------------------------------------------------ weights

    def _publish(self) -> None:
        """Put the policies' states into the object store, once for all actors."""
        self._published = ray.put({m: p.get_state() for m, p in self._policies.items()})
        self._has_published = {}

    def _weights_for(self, index: int) -> tuple[int, Any]:
        """Return what a request brings: the version, and states if the actor has another one."""
        process = self._group.restarts(index)
        if self._has_published.get(index) == process:
            return self.weights_version, None
        self._has_published[index] = process
        return self.weights_version, self._published

    def change_policies(self, config: AlgorithmConfig, module_slots: ModuleSlots) -> None:
        self._actors.wait_until_built()  # what is being built has the policies of before
        super().change_policies(config, module_slots)
        recipes = {m: policy.recipe for m, policy in self._policies.items()}
        change = partial(change_made_policies, config=config, recipes=recipes)
        self._foreach(change, self._healthy, config.sample_timeout_s)
        self._publish()  # whoever is made again has them from its recipe

    # ------------------------------------------------------------------ functions

    def _foreach(
        self, function: Callable[[R], T], indices: list[int], timeout_s: float | None
    ) -> list[T]:
        replies = self._call(dict.fromkeys(indices, function), timeout_s)
        for reply in replies:
            if reply.error is not None and not isinstance(reply.error, ActorFailure):
                raise reply.error
        return [reply.value for reply in self._actors.answered(replies)]

    def _call(
        self, functions: Mapping[int, Callable[[R], Any]], timeout_s: float | None
    ) -> list[Reply]:
        arguments = {i: (function, *self._weights_for(i)) for i, function in functions.items()}
        return self._group.call_each("call", arguments, timeout_s=timeout_s)

    # ------------------------------------------------------------------ the end

    def stop(self) -> None:
        self._group.stop()

    def handed_over(self, config: AlgorithmConfig) -> ActorGroup | None:
        if self._processes(config) == self._processes(self._config):
            return self._group
        self.stop()
        return None

    @classmethod
    def _processes(cls, config: AlgorithmConfig) -> tuple[int, ActorOptions, float]:
        """Return what actors' processes are started for: they are kept if it stays the same."""
        bundles = Bundles(config)
        options = bundles.options(cls._role, cls._num_threads)
        return bundles.roles[cls._role].count, options, config.env_runner_restore_timeout_s


class LocalWorker(Worker):
    """The trial's own copy of what env runners in actors have; it has no environment.

    Its policies are the learner's: what is set here is learned from, and reaches the env runners
    with the next `sync_weights`.

    Args:
        config: The algorithm's config.
        policies: The learner's policies by module id.
        weights_version: The version of their weights, as the group counts them.
        push_policies: Lets learners in actors take over what has been set here.

    Attributes:
        worker_index: 0, the index of the trial's own process.
    """

    worker_index = 0
    env = None
    num_envs = 0

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        weights_version: int,
        push_policies: Callable[[Collection[str]], None] | None = None,
    ):
        self.config, self.policies, self.weights_version = config, policies, weights_version
        self.push_policies = push_policies

    def foreach_env(self, function: Callable[[Any], T]) -> list[T]:
        """Return nothing: the environments are those of the actors."""
        return []

    def foreach_env_with_context(self, function: Callable[[Any, Any], T]) -> list[T]:
        """Return nothing: the environments are those of the actors."""
        return []

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Say where to look for what only a worker with an environment has."""
            if name.startswith("_") or name == "config":  # also while it is made or copied
                raise AttributeError(name)
            raise AttributeError(
                f"local_worker().{name} does not exist: the environments are those of the "
                "actors; ask them with workers.foreach_worker(function)"
            )
