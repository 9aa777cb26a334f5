"""`LearnerWorker`: what a process that learns has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.learner import Learner
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.policy.policy import Policy


class LearnerWorker:
    """The policies of one process, and what trains them.

    An algorithm's update is a function of it, of data and of what is scheduled, so that it runs
    wherever the learner does, see `LearnerGroup.run`.

    Args:
        config: The algorithm's config.
        policies: By module id.
        learners: One for each module that trains.
        learner_connectors: What happens to rollouts before, by module id.
        seed: Of the random stream, the same on all ranks.
        ranks: Who learns together with this one.

    Attributes:
        resolved: What the settings mean, see `AlgorithmConfig.resolve`.
        generator: The stream of the permutations that make minibatches, and of what losses draw:
            on the CPU, so that its numbers are the same whatever the device.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        learners: dict[str, Learner],
        learner_connectors: dict[str, LearnerConnectors],
        seed: int,
        ranks: Ranks = ALONE,
    ):
        self.config: Any = config
        self.resolved: Any = config.resolve()
        self.ranks = ranks
        self.policies, self.learners = policies, learners
        for learner in learners.values():
            learner.ranks = ranks
        self.learner_connectors = learner_connectors
        self.generator = torch.Generator().manual_seed(seed)

    @property
    def rank(self) -> int:
        """Which of the learners that train together this one is, from 0."""
        return self.ranks.rank

    @property
    def world_size(self) -> int:
        """How many there are."""
        return self.ranks.size

    def set_lr(self, lr: float | Mapping[str, float]) -> None:
        """Set every learner's learning rate, for all its parameters or by group."""
        for learner in self.learners.values():
            learner.set_lr(lr)

    def joined(self, module_id: str, fragments: Sequence[Mapping[str, Rollout]]) -> Rollout:
        """Return what a module learns from fragments, side by side.

        Args:
            module_id: Which module learns.
            fragments: Rollouts by module id.
        """
        policy, connect = self.policies[module_id], self.learner_connectors[module_id]
        return Rollout.concatenate([connect(one[module_id], policy) for one in fragments])

    def reseed(self, seed: int) -> None:
        """Begin a new random stream."""
        self.generator.manual_seed(seed)

    def get_state(self) -> dict[str, Any]:
        """Optimiser states and targets by module id, and the random stream."""
        state: dict[str, Any] = {m: learner.get_state() for m, learner in self.learners.items()}
        return {"learners": state, "generator": self.generator.get_state()}

    def set_state(self, state: dict[str, Any], *, with_random: bool = True) -> None:
        """Take over `get_state`'s, the random stream only if asked."""
        for module_id, learner in self.learners.items():
            learner.set_state(state["learners"][module_id])
        if with_random:
            self.generator.set_state(state["generator"])
