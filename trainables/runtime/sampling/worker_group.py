"""`WorkerGroup`: what groups of env runners and of evaluation env runners have in common."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, TypeVar

from trainables.core.config.config import AlgorithmConfig
from trainables.core.policy.policy import Policy
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.worker_calls import CallsWorkers
from trainables.runtime.sampling.workers import LocalWorker, Worker

R = TypeVar("R", bound=Worker)
T = TypeVar("T")


class WorkerGroup(CallsWorkers, ABC, Generic[R]):
    """All workers of one kind that an algorithm has: one in this process, or actors, or none.

    This is a group without actors, whose worker shares the learner's policies; `RemoteWorkers`
    has them. Indices of actors begin at 1; that of a worker in this process is 0.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        module_slots: Which module acts in which slot; None: the only one in all.

    Attributes:
        local_env_runner: The worker in this process; None with actors.
        weights_version: The version of the weights that the workers have.
        on_recreated: Called with the indices of actors that were made again.
        push_policies: Called when the weights of `local_worker()` are set, with the ids of the
            policies: what learns goes on with them.
    """

    local_env_runner: R | None = None

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        module_slots: ModuleSlots | None = None,
    ):
        self._config, self._policies = config, policies
        self._module_slots = module_slots or ModuleSlots([*policies])
        self.weights_version = 0
        self.on_recreated: Callable[[list[int]], None] | None = None
        self.push_policies: Callable[[Collection[str]], None] | None = None

    def _publish(self) -> None:
        """Let each have the policies' present states when it begins with what it is asked next."""
        if self.local_env_runner is not None:  # it shares the policies
            self.local_env_runner.weights_version = self.weights_version

    def change_policies(self, config: AlgorithmConfig, module_slots: ModuleSlots) -> None:
        """Let all workers go on with the policies that there are now.

        Args:
            config: The algorithm's config, which names them.
            module_slots: Which module acts where.
        """
        self._config, self._module_slots = config, module_slots
        if self.local_env_runner is not None:
            self.local_env_runner.change_policies(config, self._policies)

    # ------------------------------------------------------------------ health

    @property
    def _healthy(self) -> list[int]:
        """The indices of those that can be asked."""
        return [] if self.local_env_runner is None else [0]

    @property
    def _restarts(self) -> list[int]:
        """How often each actor was made again, in this run and in those it goes on with."""
        return []

    @property
    def num_env_runners(self) -> int:
        """Number of actors, healthy or not."""
        return len(self._restarts)

    @property
    def num_healthy_env_runners(self) -> int:
        """Number of actors that can be asked."""
        return sum(index > 0 for index in self._healthy)

    @property
    def num_restarts(self) -> int:
        """How often an actor was made again, in this run and in those it goes on with."""
        return sum(self._restarts)

    def probe(self) -> list[int]:
        """Ask idle actors for a sign of life; return those that failed."""
        return []

    def restore(self, *, wait: bool = True) -> list[int]:
        """Make failed actors again, see `FaultTolerantActors.restore`."""
        return []

    # ------------------------------------------------------------------ access

    def foreach_env_runner(
        self,
        function: Callable[[R], T],
        local_env_runner: bool = True,
        env_runner_ids: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[T]:
        """Apply a function to every healthy worker; return results in order of their index.

        Each has the weights of the last `sync_weights` by then. What the function raises is raised
        here; one that dies or does not answer is a failure, and its result is missing.

        Args:
            function: Sent to the actors, so it must be serialisable by Ray.
            local_env_runner: Whether the in-process one takes part.
            env_runner_ids: The indices of those that are asked, from 1; 0 is the in-process one.
                None: all.
            timeout_s: How long each may take, seconds; None: as long as it takes.
        """
        wanted = set(self._healthy if env_runner_ids is None else env_runner_ids)
        if not local_env_runner:
            wanted.discard(0)
        return self._foreach(function, [i for i in self._healthy if i in wanted], timeout_s)

    def foreach_env_runner_with_id(
        self,
        function: Callable[[int, R], T],
        local_env_runner: bool = True,
        env_runner_ids: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[T]:
        """Do as `foreach_env_runner`; the function also gets the worker's index."""
        return self.foreach_env_runner(
            lambda runner: function(runner.worker_index, runner),
            local_env_runner,
            env_runner_ids,
            timeout_s,
        )

    def _foreach(
        self, function: Callable[[R], T], indices: list[int], timeout_s: float | None
    ) -> list[T]:
        """Return the results of a function, see `foreach_env_runner`."""
        runner = self.local_env_runner
        return [] if runner is None else [function(runner) for _ in indices]

    def local_worker(self) -> R | LocalWorker:
        """Return the trial's own worker: the one in process, or the actors' master copy."""
        if self.local_env_runner is not None:
            self.local_env_runner.push_policies = self.push_policies
            return self.local_env_runner
        return LocalWorker(self._config, self._policies, self.weights_version, self.push_policies)

    # ------------------------------------------------------------------ the end

    def stop(self) -> None:
        """Close environments and end the actors."""
        runner, self.local_env_runner = self.local_env_runner, None
        if runner is not None:
            runner.stop()

    def handed_over(self, config: AlgorithmConfig) -> Any:
        """Stop, but for actor processes that fit another config; these are returned."""
        self.stop()
        return None
