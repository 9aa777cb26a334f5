"""An algorithm whose training steps no environment: it clones choices that a fixed set holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables import Algorithm, registry
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.settings import setting
from trainables.core.data.batch import Batch
from trainables.core.distributions.base import Distribution
from trainables.core.learning.learner import Metrics
from trainables.core.learning.minibatches import consecutive_ids
from trainables.core.networks.modules import PolicyModule
from trainables.core.reported_metrics import GRAD_NORM, LR, learned
from trainables.runtime.learners.group import LearnerWorker

NUM_ROWS = 256


@contextmanager
def cloning_is_known() -> Iterator[None]:
    """Have the registry know it, so that suites of contracts take it as one of the algorithms."""
    registry.register_algorithm(Cloning)
    try:
        yield
    finally:
        del registry._MODULES["Cloning"], registry._registered["Cloning"]


@dataclass
class CloningConfig(AlgorithmConfig):
    """Settings of `Cloning`."""

    needs_env = False
    without: ClassVar[dict[str, str]] = {
        "learner_connector": "its rows are no rollouts",
    }
    without_memory: ClassVar[str | None] = "its rows stand for themselves"
    num_choices: int = setting(2, "training", "number of choices for each observation", ge=1)

    def own_algorithm(self) -> type[Cloning]:
        return Cloning


class Cloning(Algorithm):
    """Minimises -log pi(a|s) of the same rows in every run, drawn once from the spaces."""

    config_class = CloningConfig
    config: CloningConfig
    reported_metrics = (learned("policy_loss", "nats", "mean -log pi(a|s)"), GRAD_NORM, LR)

    @classmethod
    def spaces(cls, config: CloningConfig) -> tuple[gym.Space, gym.Space] | None:
        if config.observation_space is not None or config.evaluation_env is not None:
            return None
        return gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Discrete(config.num_choices)

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        policy, generator = self.get_policy(), torch.Generator().manual_seed(0)
        shape = policy.observations.layout.shape
        obs = torch.randn(NUM_ROWS, *shape, generator=generator)
        weights = torch.randn(obs[0].numel(), policy.distribution.num_inputs, generator=generator)
        actions = policy.distribution.sample(obs.flatten(1) @ weights, generator)
        self.rows = {"default_policy": {"obs": obs, "actions": actions}}

    def training_step(self) -> dict[str, float]:
        lr = self.scheduled(self.config.lr)
        with self.timers("learn"):
            results = self.learners.run(cloning_update, self.rows, lr)
        self.num_env_steps_trained += NUM_ROWS * (self.config.num_epochs or 1)
        self.sync_weights()
        return {
            f"learner/{module_id}/{name}": value
            for module_id, result in results.items()
            for name, value in {**result, "curr_lr": lr}.items()
        }


def cloning_update(
    worker: LearnerWorker, rows: dict[str, Batch], lr: float
) -> dict[str, dict[str, float]]:
    worker.set_lr(lr)
    results = {}
    for module_id, columns in rows.items():
        policy = worker.policies[module_id]
        batch = {"features": policy.features(columns["obs"]), "actions": columns["actions"]}
        results[module_id] = worker.learners[module_id].update(
            batch,
            partial(cloning_loss, policy.distribution),
            minibatch_size=worker.config.minibatch_size,
            generator=worker.generator,
            ids=consecutive_ids(len(columns["actions"]), worker.ranks),
        )
    return results


def cloning_loss(
    distribution: Distribution, module: PolicyModule, batch: Batch
) -> tuple[Tensor, Metrics]:
    loss = -distribution.logp(module.dist_inputs(batch["features"]), batch["actions"]).mean()
    return loss, {"policy_loss": loss.detach()}


SMALL: dict[str, Any] = {
    "train_batch_size_per_learner": NUM_ROWS,
    "minibatch_size": 64,
    "model": {"fcnet_hiddens": [16]},
}
