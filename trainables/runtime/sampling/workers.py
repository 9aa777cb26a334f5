"""What every kind of worker offers: its policies by their ids, and the environments it steps."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.features import feature
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.all_slots import each_env
from trainables.runtime.envs.slots import EnvContext
from trainables.runtime.sampling.module_slots import ModuleSlots

T = TypeVar("T")


def policy_of(policies: Mapping[str, Policy], policy_id: str) -> Policy:
    """Return the policy of an id.

    Raises:
        KeyError: naming the ids there are.
    """
    if policy_id not in policies:
        raise KeyError(f"no policy {policy_id!r}; there are {sorted(policies)}")
    return policies[policy_id]


class Worker:
    """Access to the policies of a worker, by their ids, and to the environments of its slots.

    The environments are those that are stepped: a function may look at them and change how they go
    on, but whoever steps or resets one disturbs the episode in it.

    Attributes:
        config: The algorithm's config.
        policies: The policies that act, by module id.
        env: All slots; None while there are none.
        worker_index: 0 in process, 1, 2, … for actors.
        weights_version: The version of the weights that the policies have.
        push_policies: Lets whatever learns go on with weights that are set here, given the ids of
            the policies; None where these are no learner's.
    """

    config: AlgorithmConfig
    policies: dict[str, Policy]
    env: Any
    worker_index: int
    weights_version: int
    push_policies: Callable[[Collection[str]], None] | None = None

    @property
    def policy_map(self) -> dict[str, Policy]:
        """The older name of `policies`."""
        return self.policies

    @property
    def policy(self) -> Policy:
        """The policy, where there is one: that of `DEFAULT_MODULE_ID`.

        Raises:
            KeyError: naming the ids there are, if that is none of them.
        """
        return self.get_policy()

    @overload
    def get_policy(self) -> Policy: ...

    @overload
    def get_policy(self, policy_id: str) -> Policy | None: ...

    def get_policy(self, policy_id: str | None = None) -> Policy | None:
        """Return this worker's policy of an id, None if there is none of it.

        Without an id it is that of `default_policy`.

        Raises:
            KeyError: naming the ids there are, without one.
        """
        if policy_id is None:
            return policy_of(self.policies, DEFAULT_MODULE_ID)
        return self.policies.get(policy_id)

    def foreach_policy(self, function: Callable[[Policy, str], T]) -> list[T]:
        """Apply a function to each policy and its id."""
        return [function(policy, policy_id) for policy_id, policy in self.policies.items()]

    def get_weights(
        self, policies: Collection[str] | None = None
    ) -> dict[str, dict[str, np.ndarray]]:
        """Return copies of the weights by policy id; None: of all policies."""
        return {p: policy_of(self.policies, p).get_weights() for p in policies or self.policies}

    def set_weights(self, weights: dict[str, dict[str, np.ndarray]]) -> None:
        """Set weights by policy id.

        In the trial's own process they are the learner's, and `sync_weights` gives them to the env
        runners. In an actor they stay until then. `Algorithm.set_weights` does all of it.

        Raises:
            KeyError: naming the ids there are.
            ConfigError: if names or shapes are others.
        """
        for policy_id, policy_weights in weights.items():
            policy_of(self.policies, policy_id).set_weights(policy_weights)
        if self.push_policies is not None:
            self.push_policies([*weights])

    def set_policy_states(self, states: dict[str, dict[str, Any]], version: int) -> None:
        """Take over the learner's weights and filter statistics (for runners in actors).

        Args:
            states: The states of policies by module id.
            version: The version of the weights.
        """
        for module_id, state in states.items():
            self.policies[module_id].set_state(state)
        self.weights_version = version

    def change_policies(self, config: AlgorithmConfig, policies: Mapping[str, Policy]) -> None:
        """Go on with other policies.

        Args:
            config: The algorithm's config, which names them.
            policies: All policies with networks, by module id; those that stay are the same
                objects.
        """
        self.config = config
        for module_id in [m for m in self.policies if m not in policies]:
            del self.policies[module_id]
        self.policies.update(policies)

    def stop(self) -> None:
        """Close the environments, if there are any."""

    def foreach_env(self, function: Callable[[Any], T]) -> list[T]:
        """Apply a function to the environment of each slot; see `each_env`.

        Raises:
            RuntimeError: if there is none now.
        """
        return self.foreach_env_with_context(lambda env, context: function(env))

    def foreach_env_with_context(self, function: Callable[[Any, EnvContext], T]) -> list[T]:
        """Apply a function to the environment of each slot and what it was made with.

        Raises:
            RuntimeError: if there is none now.
        """
        if self.env is None:
            raise RuntimeError(
                "an evaluation makes its environments when it begins and closes them when it ends: "
                "there is none now. Set what they are made with as evaluation_config="
                "{'env_config': …}, or reach them in on_episode_start, as `env`"
            )
        return each_env(self.env, function, self._context)

    @property
    def _context(self) -> EnvContext:
        """What an environment that is one piece for all slots was made with."""
        config = self.config
        return EnvContext(config.env_config, self.worker_index, 0, config.num_env_runners)


R = TypeVar("R", bound=Worker)


class WorkerGroup(ABC, Generic[R]):
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

    if TYPE_CHECKING:  # by the reference's names, see `CallsWorkers`
        foreach_worker: Callable[..., list[Any]]
        foreach_worker_with_id: Callable[..., list[Any]]
        foreach_worker_with_index: Callable[..., list[Any]]
        foreach_env: Callable[..., list[list[Any]]]
        foreach_env_with_context: Callable[..., list[list[Any]]]
        foreach_policy: Callable[..., list[Any]]
    else:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Return a call by the reference's names, or say what to call in its place."""
            return feature("reference").worker_call(self, name)

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

    def local_worker(self) -> Any:
        """Return the trial's own worker: the one in process, or the actors' master copy."""
        if self.local_env_runner is not None:
            self.local_env_runner.push_policies = self.push_policies
            return self.local_env_runner
        return feature("actors").local_worker(
            self._config, self._policies, self.weights_version, self.push_policies
        )

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
