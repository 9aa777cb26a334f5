"""`LearnerGroup`: runs an algorithm's update where its learner is; the one of this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, overload

import numpy as np
import ray
import torch
from ray.exceptions import ObjectLostError
from torch import Tensor

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import config_of_module, encoder_groups
from trainables.core.data.batch import Batch, Rollout
from trainables.core.data.stored import LazyMapping
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.fragments import no_fragments
from trainables.core.learning.learner import Learner, LossFn
from trainables.core.learning.part import Parts
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.policy.policy import Policy

logger = logging.getLogger("trainables")


class LearnerWorker:
    """The policies of one process, and what trains them.

    An algorithm's update is a function of it, of data and of what is scheduled, so that it runs
    wherever the learner does, see `LearnerGroup.run`.

    Args:
        config: The algorithm's config.
        policies: The policies by module id.
        learners: The learners, one for each module that trains.
        learner_connectors: What happens to rollouts before, by module id.
        seed: The seed of the random stream, the same on all ranks.
        ranks: Who learns together with this one.
        parts: Networks that train beside the policies, by module id and name.

    Attributes:
        config: The algorithm's config; `config_of` has what a module learns by.
        resolved: What its settings mean, see `AlgorithmConfig.resolve`.
        generator: The stream of the permutations that make minibatches, and of what losses draw:
            on the CPU, so that its numbers are the same whatever the device.
        losses: Those that an algorithm makes once, by module id.
        num_env_steps: Environment steps of the trial when the present update was asked for.
    """

    num_env_steps: int = 0

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        learners: dict[str, Learner],
        learner_connectors: dict[str, LearnerConnectors],
        seed: int,
        ranks: Ranks = ALONE,
        parts: Mapping[str, Parts] | None = None,
    ):
        self.config: Any = config
        self.resolved: Any = config.resolve()
        self.ranks = ranks
        self.policies, self.learners = policies, learners
        for learner in learners.values():
            learner.ranks = ranks
        self.learner_connectors = learner_connectors
        self.generator = torch.Generator().manual_seed(seed)
        self.parts = {m: dict(of_module) for m, of_module in (parts or {}).items() if of_module}
        self._join_parts(self.parts, seed)
        self.losses: dict[str, LossFn] = {}
        self._encoders = _shared_encoders(config, policies)

    def _join_parts(self, parts: Mapping[str, Parts], seed: int) -> None:
        for module_id, of_module in parts.items():
            for name, part in of_module.items():
                part.join(self.ranks, _part_seed(seed, module_id, name))

    @property
    def rank(self) -> int:
        """Which of the learners that train together this one is, from 0."""
        return self.ranks.rank

    @property
    def world_size(self) -> int:
        """How many there are."""
        return self.ranks.size

    def config_of(self, module_id: str) -> Any:
        """Return the config that a module learns by: with the settings that it has of its own."""
        return config_of_module(self.config, module_id)

    def resolved_of(self, module_id: str) -> Any:
        """Return what the settings that a module learns by mean."""
        config = self.config_of(module_id)
        return self.resolved if config is self.config else config.resolve()

    def set_lr(self, lr: float | Mapping[str, float]) -> None:
        """Set every learner's learning rate, for all its parameters or by group."""
        for learner in self.learners.values():
            learner.set_lr(lr)

    def set_rates(self, rates: Mapping[str, float | Mapping[str, float]]) -> None:
        """Set learning rates by module id, for all parameters of a module or by group."""
        for module_id, rate in rates.items():
            self.learners[module_id].set_lr(rate)

    def joined(self, module_id: str, fragments: Sequence[Mapping[str, Rollout]]) -> Rollout | None:
        """Return what a module learns from fragments, side by side; None if it acted in none.

        Where several learners share the fragments, one that has none of a module has no columns of
        it: it takes part in the sums of the others.

        Args:
            module_id: Which module learns.
            fragments: Rollouts by module id.
        """
        policy, connect = self.policies[module_id], self.learner_connectors[module_id]
        own = [connect(one[module_id], policy) for one in fragments if module_id in one]
        if not int(self.ranks.sum(torch.tensor(len(own)))):
            return None
        return Rollout.concatenate(own) if own else connect(no_fragments(policy), policy)

    @overload
    def with_parts(self, module_id: str, experience: Rollout) -> Rollout: ...
    @overload
    def with_parts(
        self, module_id: str, experience: Batch, share: Tensor | float | None = None
    ) -> Batch: ...
    def with_parts(
        self, module_id: str, experience: Rollout | Batch, share: Tensor | float | None = None
    ) -> Rollout | Batch:
        """Return what a module learns from, as its parts leave it; they train meanwhile.

        An update calls it before anything is estimated.

        Args:
            module_id: Which module learns.
            experience: A rollout, or a batch that was drawn.
            share: What this rank's rows count in a batch of all ranks, see `Learner.update_step`.
        """
        for part in self.parts.get(module_id, {}).values():
            part.num_env_steps = self.num_env_steps
            if isinstance(experience, Rollout):
                part.metrics = {}  # of the rollout before
                experience = part.on_rollout(experience)
            else:
                experience = part.on_batch(experience, share)
        return experience

    def share_encoder(self, module_id: str) -> None:
        """Let those that have a module's encoder, too, take over what it has just learned.

        An update calls it after the steps of each module (the setting `shared_encoders`); the
        config of the algorithm says so by `shares_encoders`.

        Args:
            module_id: Which module has learned.
        """
        if self._encoders is not None:
            self._encoders.hand_on(module_id)

    def part_metrics(self, module_id: str) -> dict[str, float]:
        """Return what a module's parts report of the latest `with_parts`, as `<part>/<name>`."""
        return {
            f"{name}/{metric}": float(value)
            for name, part in self.parts.get(module_id, {}).items()
            for metric, value in part.metrics.items()
        }

    def change(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        added: LearnerWorker,
        learner_connectors: dict[str, LearnerConnectors],
    ) -> None:
        """Go on with other modules.

        Args:
            config: The algorithm's config.
            policies: The policies that learn from here on, by module id.
            added: Has learners and parts of those that are new.
            learner_connectors: Of all that learn.
        """
        self.config, self.resolved = config, config.resolve()
        self.policies, self.learner_connectors = policies, learner_connectors
        learners, parts = self.learners | added.learners, self.parts | added.parts
        self.learners = {m: learners[m] for m in policies}
        self.parts = {m: parts[m] for m in policies if m in parts}
        self.losses = {m: loss for m, loss in self.losses.items() if m in policies}
        self._encoders = _shared_encoders(config, policies)
        for module_id, learner in self.learners.items():  # the first shelf may just have been made
            if (shelved := policies[module_id].shelved) is not None:
                shelved.add(learner)

    def reseed(self, seed: int) -> None:
        """Begin new random streams."""
        self.generator.manual_seed(seed)
        for module_id, of_module in self.parts.items():
            for name, part in of_module.items():
                part.reseed(_part_seed(seed, module_id, name))

    def get_state(self) -> dict[str, Any]:
        """Return optimiser states and targets by module id, parts, and the random stream.

        Where policies are shelved, `learners` is a mapping that makes each state as it is asked
        for: all of them may be more than fits in memory.
        """
        own = dict(self.learners)
        learners: Mapping[str, Any] = LazyMapping(own, lambda m: own[m].get_state())
        if all(learner.shelved is None for learner in own.values()):
            learners = dict(learners)
        state: dict[str, Any] = {"learners": learners, "generator": self.generator.get_state()}
        if self.parts:
            state["parts"] = {
                m: {name: part.get_state() for name, part in of_module.items()}
                for m, of_module in self.parts.items()
            }
        return state

    def set_state(self, state: dict[str, Any], *, with_random: bool = True) -> None:
        """Take over `get_state`'s, the random stream only if asked.

        Raises:
            ConfigError: if it has no state of a part.
        """
        check_part_states(state, self.parts)
        for module_id, learner in self.learners.items():
            learner.set_state(state["learners"][module_id])
        for module_id, of_module in self.parts.items():
            for name, part in of_module.items():
                stream = part.generator.get_state()
                part.set_state(state["parts"][module_id][name])
                if not with_random:
                    part.generator.set_state(stream)
        if with_random:
            self.generator.set_state(state["generator"])


def _shared_encoders(config: AlgorithmConfig, policies: Mapping[str, Policy]) -> Any:
    """Return the encoders that policies of a process have in common, None if there are none."""
    groups = encoder_groups(config)
    return feature("agents").encoders_among(groups, policies) if groups else None


def _part_seed(seed: int, module_id: str, name: str) -> int:
    """Return the seed of a part's random stream, the same on each rank."""
    place = np.frombuffer(f"{module_id}/{name}".encode(), np.uint8)
    return int(np.random.SeedSequence([seed, *place.tolist()]).generate_state(1)[0])


def check_part_states(
    state: Mapping[str, Any], parts: Mapping[str, Collection[str]], *, tells: bool = False
) -> None:
    """Check that a learner's state has what the parts of a run go on from.

    Args:
        state: Of `LearnerWorker.get_state`.
        parts: Names of the run's parts by module id.
        tells: Whether to warn of what is stored of a part that the run does not have.

    Raises:
        ConfigError: if the state has nothing of a part.
    """
    stored: Mapping[str, Collection[str]] = state.get("parts", {})
    for module_id, names in parts.items():
        for name in names:
            if name not in stored.get(module_id, {}):
                raise ConfigError(
                    f"the state is of a run without the part {name!r} of {module_id!r} "
                    "(make_learner_parts)"
                )
    for module_id, names in stored.items():
        left = [name for name in names if name not in parts.get(module_id, {})]
        if left and tells:
            logger.warning(
                "the state has parts of %r that this run does not have, %s: what they learned is "
                "left out (make_learner_parts)",
                module_id,
                ", ".join(left),
            )


def make_worker(
    config: AlgorithmConfig,
    policies: dict[str, Policy],
    make_learner: Callable[[Any, Any], Learner],
    make_parts: Callable[[Any, Policy], Parts],
    learner_connectors: dict[str, LearnerConnectors],
    seed: int,
    ranks: Ranks = ALONE,
) -> LearnerWorker:
    """Return the worker of a process, with learners and parts.

    Args:
        config: The algorithm's config; each module's learner and parts are made by its own.
        policies: The policies by module id.
        make_learner: Makes the learner of a module, see `Algorithm.make_learner`.
        make_parts: Makes the parts of a policy's module, see `Algorithm.make_learner_parts`.
        learner_connectors: What happens to rollouts before, by module id.
        seed: The seed of the random stream and of networks that are made here.
        ranks: Who learns together with this process.
    """
    own = {m: config_of_module(config, m) for m in policies}
    # Networks that are made here draw their weights from the global stream, on each rank the same.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learners = {}
        for m, policy in policies.items():
            learners[m] = make_learner(own[m], policy.module)
            if policy.shelved is not None:
                policy.shelved.add(learners[m])  # before another one needs the room
        parts = {m: make_parts(own[m], policy) for m, policy in policies.items()}
    return LearnerWorker(config, policies, learners, learner_connectors, seed, ranks, parts)


class DataLost(RuntimeError):
    """What an update was to learn from was on a node that has died."""


class LearnerGroup(Protocol):
    """What trains an algorithm's networks, in this process or in actors.

    Attributes:
        num_restarts: How often learners that were lost were made again.
        num_env_steps: Environment steps of the trial: what schedules of parts go by.
    """

    num_restarts: int
    num_env_steps: int

    def handed_over(self, config: AlgorithmConfig) -> Any:
        """Stop, but for actor processes that fit another config; these are returned."""

    def run(self, function: Callable[..., Any], data: Any, *args: Any) -> Any:
        """Call a function where the learner is.

        Args:
            function: A function of a module: `function(worker, data, *args)`.
            data: What is learned from. References to Ray objects, by themselves or in a list, are
                fetched by the learner.
            args: Small things besides, e.g. present values of schedules.

        Returns:
            What the function returns; of several learners, the first one's.
        """

    def submit(self, function: Callable[..., Any], data: Any, *args: Any) -> None:
        """Do as `run` without waiting for the result, see `finished`."""

    def finished(self, timeout_s: float | None = 0.0) -> list[Any]:
        """Return results of what was submitted, each once and in order.

        Args:
            timeout_s: How long to wait for at least one if something is queued; None: for ever.
        """

    @property
    def num_queued(self) -> int:
        """How many submitted updates are not done yet."""

    @property
    def generator(self) -> torch.Generator:
        """A random stream of this process, for what is drawn before the learner has the data."""

    def pull_weights(self) -> None:
        """Let the trial's own policies take over what has been learned."""

    def push_policies(self) -> None:
        """Let learners take over the trial's own policies."""

    def remember(self) -> None:
        """Keep the present state, for learners that are made again."""

    def reseed(self, seed: int) -> None:
        """Begin a new random stream."""

    def get_state(self) -> dict[str, Any]:
        """Return optimiser states and targets by module id, and the random streams."""

    def check_state(self, state: dict[str, Any]) -> None:
        """Check that `set_state` can take over a state, and warn of what it leaves out.

        Raises:
            ConfigError: if it has nothing of a part.
        """

    def set_state(self, state: dict[str, Any], *, with_random: bool = True) -> None:
        """Take over `get_state`'s, the random streams only if asked."""

    def change_modules(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        make_learner: Callable[[Any, Any], Learner],
        make_parts: Callable[[Any, Policy], Parts],
        learner_connectors: dict[str, LearnerConnectors],
        seed: int,
    ) -> None:
        """Go on with other modules: those that are new begin to learn, those that are gone end.

        Args:
            config: The algorithm's config.
            policies: The policies that learn from here on, by module id.
            make_learner: See `make_worker`, as the others.
            make_parts: See `make_worker`.
            learner_connectors: See `make_worker`.
            seed: The seed of networks that are made now.
        """

    def stop(self) -> None:
        """End all processes."""


class LocalLearnerGroup:
    """The learner of an algorithm in this process: its policies are the trial's own.

    Args:
        worker: What learns.
    """

    num_restarts = 0
    num_env_steps = 0

    def __init__(self, worker: LearnerWorker):
        self.worker = worker
        self._finished: list[Any] = []

    def handed_over(self, config: AlgorithmConfig) -> None:
        """Return no actors."""

    def run(self, function: Callable[..., Any], data: Any, *args: Any) -> Any:
        self.worker.num_env_steps = self.num_env_steps
        return function(self.worker, fetched(data), *args)

    def submit(self, function: Callable[..., Any], data: Any, *args: Any) -> None:
        """Run a function at once, see `finished`."""
        with suppress(DataLost):
            self._finished.append(self.run(function, data, *args))

    def finished(self, timeout_s: float | None = 0.0) -> list[Any]:
        results, self._finished = self._finished, []
        return results

    @property
    def num_queued(self) -> int:
        return 0

    def __getitem__(self, module_id: str) -> Learner:
        return self.worker.learners[module_id]

    @property
    def generator(self) -> torch.Generator:
        """The learner's random stream."""
        return self.worker.generator

    def pull_weights(self) -> None:
        """Do nothing: the trial's own policies have them already."""

    def push_policies(self) -> None:
        """Do nothing: the learner has the trial's own policies."""

    def remember(self) -> None:
        """Do nothing: a learner of this process is never made again."""

    def change_modules(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        make_learner: Callable[[Any, Any], Learner],
        make_parts: Callable[[Any, Policy], Parts],
        learner_connectors: dict[str, LearnerConnectors],
        seed: int,
    ) -> None:
        new = {m: policy for m, policy in policies.items() if m not in self.worker.learners}
        made = make_worker(config, new, make_learner, make_parts, {}, seed, self.worker.ranks)
        self.worker.change(config, policies, made, learner_connectors)

    def stop(self) -> None:
        """Do nothing: there is no other process."""

    def set_lr(self, lr: float | Mapping[str, float]) -> None:
        """Set every learner's learning rate, for all its parameters or by group."""
        self.worker.set_lr(lr)

    def reseed(self, seed: int) -> None:
        self.worker.reseed(seed)

    def get_state(self) -> dict[str, Any]:
        return self.worker.get_state()

    def check_state(self, state: dict[str, Any]) -> None:
        check_part_states(state, self.worker.parts, tells=True)

    def set_state(self, state: dict[str, Any], *, with_random: bool = True) -> None:
        self.worker.set_state(state, with_random=with_random)


def fetched(data: Any) -> Any:
    """Return data with what its references to Ray objects stand for; of a list, what is not lost.

    Raises:
        DataLost: if nothing is left.
    """
    if isinstance(data, ray.ObjectRef):
        return ray.get(data)
    if isinstance(data, list) and any(isinstance(item, ray.ObjectRef) for item in data):
        found = []
        for item in data:
            try:
                found.append(ray.get(item) if isinstance(item, ray.ObjectRef) else item)
            except ObjectLostError as error:
                logger.warning("a part of what is learned from is lost with its node: %s", error)
        if not found:
            raise DataLost("all that an update was to learn from is lost with its node")
        return found
    return data
