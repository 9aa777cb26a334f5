"""`WorkerActor`: a worker in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from trainables.core.config.config import AlgorithmConfig
from trainables.core.policy.policy import Policy
from trainables.core.policy.shelf import PolicyShelf, Recipes, shelf_for, shelved_policies
from trainables.runtime.devices import runner_device
from trainables.runtime.sampling.workers import Worker

R = TypeVar("R", bound=Worker)
T = TypeVar("T")

States = dict[str, dict[str, Any]]
"""The states of policies, by module id."""


class WorkerActor(Generic[R]):
    """A worker in a process of its own. Made empty, so that it can be built again.

    Requests bring the policies' states where the worker may have others.

    Attributes:
        runner: The worker, once the actor is built.
    """

    runner: R

    def ping(self) -> int:
        """Return the worker's index; it answers when the worker is built."""
        return self.runner.worker_index

    def call(self, function: Callable[[R], T], version: int, states: States | None) -> T:
        """Apply a function to the worker."""
        self._take_over(version, states)
        return function(self.runner)

    def _take_over(self, version: int, states: States | None) -> None:
        if states is not None:
            self.runner.set_policy_states(states, version)


def change_made_policies(worker: Worker, config: AlgorithmConfig, recipes: Recipes) -> None:
    """Let a worker in an actor go on with other policies; those that are new are made.

    Args:
        worker: The worker.
        config: The algorithm's config, which names them.
        recipes: The arguments of all policies, by module id.
    """
    kept = {m: worker.policies[m] for m in recipes if m in worker.policies}
    added = {m: own for m, own in recipes.items() if m not in kept}
    new = made_policies(config, added, shelf_for(config, len(recipes), kept.values()))
    worker.change_policies(config, {m: kept.get(m) or new[m] for m in recipes})


def made_policies(
    config: AlgorithmConfig, recipes: Recipes, shelf: PolicyShelf | None = None
) -> dict[str, Policy]:
    """Return the policies of a worker in an actor, on its device, by module id.

    Args:
        config: The algorithm's config.
        recipes: Their arguments.
        shelf: Of the policies that there are already; None makes one if it is needed.
    """
    options = config.resolve().compile_acting
    policies = shelved_policies(config, recipes, runner_device(config), shelf)
    if options is not None:
        for policy in policies.values():
            policy.compile_acting(options)
    return policies
