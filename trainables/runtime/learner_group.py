"""`LearnerGroup`: the learners of all modules behind one `update`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from trainables.core.batch import Batch
from trainables.core.learner import Learner, LossFn


class LearnerGroup:
    """Learners by module id, in this process.

    Args:
        learners: One for each module that trains.
        seed: Of the permutations that make minibatches, and of what losses draw.

    Attributes:
        generator: That random stream, on the CPU: the same numbers whatever the device.
    """

    def __init__(self, learners: dict[str, Learner], seed: int):
        self.learners = learners
        self.generator = torch.Generator().manual_seed(seed)

    def __getitem__(self, module_id: str) -> Learner:
        return self.learners[module_id]

    def update(
        self,
        batches: dict[str, Batch],
        loss_fns: dict[str, LossFn],
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        shuffle: bool = True,
    ) -> dict[str, dict[str, float]]:
        """Train each module on its batch; returns mean metrics by module id."""
        return {
            module_id: self.learners[module_id].update(
                batch,
                loss_fns[module_id],
                num_epochs=num_epochs,
                minibatch_size=minibatch_size,
                generator=self.generator if shuffle else None,
            )
            for module_id, batch in batches.items()
        }

    def set_lr(self, lr: float | Mapping[str, float]) -> None:
        """Set every learner's learning rate, for all its parameters or by group."""
        for learner in self.learners.values():
            learner.set_lr(lr)

    def reseed(self, seed: int) -> None:
        """Draw permutations from a new stream."""
        self.generator.manual_seed(seed)

    def get_state(self) -> dict[str, Any]:
        """Optimiser states by module id, and the random stream."""
        state: dict[str, Any] = {m: learner.get_state() for m, learner in self.learners.items()}
        return {"learners": state, "generator": self.generator.get_state()}

    def set_state(self, state: dict[str, Any], *, with_random: bool = True) -> None:
        """Take over `get_state`'s, the random stream only if asked."""
        for module_id, learner in self.learners.items():
            learner.set_state(state["learners"][module_id])
        if with_random:
            self.generator.set_state(state["generator"])
