"""PPO and DQN with a bonus of a second network for what is new (Burda et al., 2018, in small)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from trainables import DQN, PPO
from trainables.core.data.batch import Batch, Rollout
from trainables.core.learning.learner import Learner, Metrics
from trainables.core.learning.part import LearnerPart, Parts
from trainables.core.policy.policy import Policy


class Novelty(LearnerPart):
    """Random network distillation: what a network cannot predict yet is rewarded."""

    def __init__(self, policy: Policy):
        num_features = policy.observations.preprocessor.num_features
        self.policy, self.random = policy, nn.Linear(num_features, 8).to(policy.device)
        self.learned = nn.Sequential(nn.Linear(num_features, 16), nn.Tanh(), nn.Linear(16, 8))
        self.learned.to(policy.device)
        learner = Learner(self.learned, {"type": "adamw"}, grad_clip=1.0)
        learner.set_lr(1e-2)
        super().__init__(nn.ModuleDict({"random": self.random, "learned": self.learned}), learner)

    @torch.no_grad()
    def on_rollout(self, rollout: Rollout) -> Rollout:
        features = self.policy.features(self.policy.observations.seen(rollout))
        successors, valid = features[1:], torch.from_numpy(rollout.valid).to(self.policy.device)
        columns = {"features": successors, "aims": self.random(successors)}
        bonus = (self.learned(successors) - columns["aims"]).square().mean(-1) * valid
        with torch.enable_grad():
            found = self.train(columns, valid, self.loss, num_epochs=2, minibatch_size=64)
        every = torch.cat(self.learner.ranks.gather(bonus[valid]))
        self.metrics = {**found, "bonus_mean": every.mean()}
        return replace(rollout, rewards=rollout.rewards + bonus.cpu().numpy())

    def on_batch(self, batch: Batch, share: Tensor | float | None = None) -> Batch:
        with torch.no_grad():
            aims = self.random(batch["next_features"])
            bonus = (self.learned(batch["next_features"]) - aims).square().mean(-1)
        columns = {"features": batch["next_features"], "aims": aims}
        self.metrics = self.step(columns, self.loss, share)
        return {**batch, "rewards": batch["rewards"] + bonus}

    @staticmethod
    def loss(network: nn.Module, batch: Batch) -> tuple[Tensor, Metrics]:
        loss = (network(batch["features"]) - batch["aims"]).square().mean()
        return loss, {"loss": loss.detach()}


class CuriousPPO(PPO):
    """PPO whose learner has the part."""

    @classmethod
    def make_learner_parts(cls, config: Any, policy: Policy) -> Parts:
        return {"novelty": Novelty(policy)}


class CuriousDQN(DQN):
    """DQN whose learner has the part."""

    @classmethod
    def make_learner_parts(cls, config: Any, policy: Policy) -> Parts:
        return {"novelty": Novelty(policy)}
