"""`LearnerActor`: a `LearnerWorker` in a process of its own, and its share of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ray
import torch
from torch import Tensor

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import config_of_module
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.learner import Learner
from trainables.core.learning.part import Parts
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.logs import logger, set_log_level
from trainables.core.policy.policy import Policy
from trainables.core.policy.shelf import shelved_policies
from trainables.runtime.devices import chosen_device
from trainables.runtime.learners.group import LearnerWorker, fetched, make_worker
from trainables.runtime.learners.process_ranks import (
    CPUS,
    GPUS,
    ProcessRanks,
    RankLost,
    find_store,
    open_store,
)
from trainables.runtime.process_environment import num_threads


@dataclass(frozen=True)
class WorkerRecipe:
    """What a learner worker is made of, wherever.

    Attributes:
        config: The algorithm's config.
        policies: Arguments of each policy by module id.
        make_learner: Makes the learner of a module by its config.
        make_parts: Makes the parts of a policy's module by its config.
        seed: The seed of the random stream, the same on all ranks.
    """

    config: AlgorithmConfig
    policies: dict[str, dict[str, Any]]
    make_learner: Callable[[AlgorithmConfig, Any], Learner]
    make_parts: Callable[[AlgorithmConfig, Policy], Parts]
    seed: int

    def make(self, ranks: Ranks) -> LearnerWorker:
        """Return the worker, on this process's GPU if it has one."""
        config = self.config
        variables = config.extra_python_environs_for_worker
        torch.set_num_threads(num_threads(variables, config.num_cpus_per_learner))
        where = f"on {ray.util.get_node_ip_address()}"
        device = chosen_device(config, "num_gpus_per_learner", where)
        policies = shelved_policies(config, self.policies, device)
        connectors = {}
        for module_id, policy in policies.items():
            own = config_of_module(config, module_id)
            bound = own.resolve().reward_bound
            connectors[module_id] = LearnerConnectors(own.learner_connector, bound, policy)
        return make_worker(
            config, policies, self.make_learner, self.make_parts, connectors, self.seed, ranks
        )


class LearnerActor:
    """One rank. Made empty, so that it can be built again."""

    def __init__(self) -> None:
        self._ranks: Ranks = ALONE

    def build(self, recipe: WorkerRecipe) -> None:
        """Make the worker anew, for now alone."""
        set_log_level(recipe.config.log_level)
        self._leave()
        self._recipe = recipe

    def address(self) -> str:
        """Return the address of the node that this process is on."""
        return str(ray.util.get_node_ip_address())

    def open(self, host: str, size: int) -> int:
        """Let the others find this rank, the first one; returns the port."""
        self._store = open_store(host, size)
        return int(self._store.port)

    def join(self, rank: int, size: int, host: str, port: int, one_node: bool) -> None:
        """Meet the other ranks, and make the worker."""
        if size > 1:
            store = self._store if rank == 0 else find_store(host, port, size)
            config = self._recipe.config
            alone_on_gpu = config.num_gpus_per_learner >= 1 and not config.fake_gpus
            backend = GPUS if alone_on_gpu else CPUS
            self._ranks = ProcessRanks(rank, size, store, backend, one_node)
        self.worker = self._recipe.make(self._ranks)
        logger.info("learner %d of %d is there, %d threads", rank, size, torch.get_num_threads())

    def run(
        self,
        function: Callable[..., Any],
        data: Any,
        filters: dict[str, Any],
        num_env_steps: int,
        args: tuple[Any, ...],
    ) -> tuple[Any, dict[str, Any] | None]:
        """Call an update with this rank's share of the data.

        Args:
            function: The update, called with the worker, the data, and `args`.
            data: May be a list with references.
            filters: States of observation filters by module id: those that the data was seen with.
            num_env_steps: Of the trial.
            args: Small things besides.

        Returns:
            Of rank 0: what the function returns, and the policies' states afterwards.
        """
        try:
            for module_id, state in filters.items():
                observation_filter = self.worker.policies[module_id].observations.filter
                assert observation_filter is not None
                observation_filter.set_state(state)
            self.worker.num_env_steps = num_env_steps
            result = function(self.worker, fetched(data), *args)
        except BaseException as error:
            if not isinstance(error, RankLost):
                self._leave()  # the others wait for this rank's part of a sum
            raise
        if self._ranks.rank:
            return None, None
        return result, self._policy_states()

    def begin(self, policies: dict[str, Any]) -> None:
        """Take over the policies' states that a run starts with; targets start as what they follow.

        Args:
            policies: States by module id.
        """
        self.set_state({"policies": policies, "learner": None})
        for learner in self.worker.learners.values():
            for name in learner.targets:
                learner.update_target(name, 1.0)

    def get_state(self) -> dict[str, Any]:
        """Return everything that another process goes on from."""
        return {"policies": self._policy_states(), "learner": _on_host(self.worker.get_state())}

    def set_state(self, state: dict[str, Any], with_random: bool = True) -> None:
        """Take over `get_state`'s."""
        for module_id, part in state["policies"].items():
            self.worker.policies[module_id].set_state(part)
        if state["learner"] is not None:
            self.worker.set_state(state["learner"], with_random=with_random)

    def reseed(self, seed: int) -> None:
        """Begin a new random stream."""
        self.worker.reseed(seed)

    def _policy_states(self) -> dict[str, Any]:
        return {m: policy.get_state() for m, policy in self.worker.policies.items()}

    def _leave(self) -> None:
        if isinstance(self._ranks, ProcessRanks):
            self._ranks.leave()
        self._ranks = ALONE


def _on_host(tree: Any) -> Any:
    """Return a tree of dicts with its tensors in host memory: who reads it may have no GPU."""
    if isinstance(tree, Mapping):
        return {key: _on_host(part) for key, part in tree.items()}
    return tree.cpu() if isinstance(tree, Tensor) else tree


def shares(data: Any, count: int) -> list[Any]:
    """Return data in so many parts, as equal as they can be.

    Args:
        data: A list, e.g. of references to rollouts: parts of it. Or a dict: its rollouts by
            slots, its tensors by rows, dicts of these likewise. Or what was drawn: each of its
            batches by rows.
        count: Number of parts.
    """
    if count == 1:
        return [data]
    if isinstance(data, dict):
        split = {key: shares(part, count) for key, part in data.items()}
        return [{key: parts[i] for key, parts in split.items()} for i in range(count)]
    if isinstance(data, Drawn):
        return data.shares(count)
    if isinstance(data, Rollout):
        num_slots = data.rewards.shape[1]
        return [data.slots(a, b) for a, b in pairwise(_bounds(num_slots, count))]
    if isinstance(data, list) and len(data) < count:
        raise ConfigError(
            f"num_learners = {count} cannot share out a train batch of {len(data)} fragments: "
            "raise train_batch_size_per_learner, or lower num_learners"
        )
    if isinstance(data, (list, Tensor)):
        return [data[a:b] for a, b in pairwise(_bounds(len(data), count))]
    raise TypeError(f"a {type(data).__name__} cannot be shared out over learners")


def _bounds(length: int, count: int) -> list[int]:
    return [length * i // count for i in range(count + 1)]
