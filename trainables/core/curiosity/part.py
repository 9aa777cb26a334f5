"""`IntrinsicReward`: the part of a learner that rewards a policy for what is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.counts import Counts
from trainables.core.curiosity.moments import RunningSize
from trainables.core.curiosity.novelty import BONUS, Novelty, feature_network
from trainables.core.curiosity.seen import Seen, StateVisits, visits_of
from trainables.core.data.batch import (
    ADDED_ADVANTAGES,
    HOST,
    Batch,
    Rollout,
    as_tensor,
    tree_columns,
    tree_of,
)
from trainables.core.data.features import Features, map_tensors
from trainables.core.learning.learner import Learner, Metrics
from trainables.core.learning.part import LearnerPart
from trainables.core.learning.schedules import scheduled
from trainables.core.policy.policy import Policy

_ROWS_AT_ONCE = 1024  # of a rollout, for their bonuses
_OPTIMIZER = {"type": "adam", "eps": 1e-8}


class IntrinsicReward(LearnerPart):
    """Bonuses for what is new, of fresh rollouts or of drawn batches.

    Args:
        policy: Who is rewarded.
        novelty: Says what is new.
        settings: The `exploration_config`.
        lambda_: GAE's lambda, for bonuses that have a value function of their own.
        burn_in: Rows that drawn sequences have before those that are trained on.
    """

    def __init__(
        self,
        policy: Policy,
        novelty: Novelty,
        settings: ExplorationConfig,
        lambda_: float = 0.95,
        burn_in: int = 0,
    ):
        self.settings, self.novelty = settings, novelty
        self._policy, self._lambda, self._burn_in = policy, lambda_, burn_in
        self._size = RunningSize()
        networks = {"novelty": novelty, "size": self._size}
        trained = [] if novelty.trained is None else [novelty.trained]
        if settings.intrinsic_gamma is not None:
            spec = policy.observations.preprocessor.spec
            self._seen = Seen(spec, settings.normalize_observations)
            self._value = feature_network(self._seen.spec, settings, 1)
            networks |= {"value_sees": self._seen, "value": self._value}
            trained.append(self._value)
        self.visits: StateVisits | None = visits_of(policy.observations.preprocessor.space)
        if self.visits is not None:
            networks["visits"] = self.visits
        every = nn.ModuleDict(networks).to(policy.device)
        super().__init__(every, _learner(nn.ModuleList(trained), settings) if trained else None)
        self._latest: Mapping[str, Tensor | float] = {}

    # ------------------------------------------------------------------ what it is asked for

    @torch.no_grad()
    def on_rollout(self, rollout: Rollout) -> Rollout:
        """Return the rollout with bonuses: in its rewards, or as advantages of their own."""
        valid = torch.from_numpy(rollout.valid)
        if not int(self.ranks.sum(valid.sum())):
            self.metrics = self._latest
            return rollout
        columns, seen = self._columns(rollout)
        self._observe(map_tensors(lambda part: part[1:][valid], seen))
        raw = self._bonuses(seen, columns["actions"])
        self._size.update(raw[valid].to(self._policy.device), self.ranks)
        bonuses = self._sized(raw).masked_fill(~valid, 0.0)
        told = rollout
        if self.settings.intrinsic_gamma is None:
            added = (self.eta * bonuses).numpy()
            told = replace(rollout, rewards=rollout.rewards + added)
        else:
            advantages, targets = self._advantages(seen, bonuses, valid)
            columns["intrinsic_targets"] = targets
            added = (self.eta * advantages).numpy()
            told = replace(rollout, extra={**rollout.extra, ADDED_ADVANTAGES: added})
        losses: dict[str, float] = {}
        if self.own_learner is not None:
            with torch.enable_grad():
                losses = self.train(
                    columns,
                    valid,
                    self._loss,
                    num_epochs=self.settings.num_epochs,
                    minibatch_size=self.settings.minibatch_size,
                )
        rewards = torch.from_numpy(rollout.rewards)[valid]
        self._report(losses, self.eta * bonuses[valid], rewards)
        return told

    def on_batch(self, batch: Batch, share: Tensor | float | None = None) -> Batch:
        """Return the batch with bonuses in its rewards, as new as they are to the present model."""
        steps = self._steps_of(batch)
        # A rank without rows has one that counts nothing.
        counts = share is None or float(share) > 0
        rows = slice(None) if counts else slice(0, 0)
        with torch.no_grad():
            self._observe(map_tensors(lambda part: part[rows], tree_of(steps, "next_features")))
        losses: Metrics = {}
        if self.own_learner is None:
            raw = self.novelty.bonus(steps)
        else:
            losses = self.step(steps, self._loss, share)
            raw = steps[BONUS]  # from before the step
        self._size.update(raw[rows], self.ranks)
        bonuses = self.eta * self._sized(raw)
        self._report(losses, bonuses[rows], batch["rewards"][rows])
        return {**batch, "rewards": batch["rewards"] + bonuses}

    @property
    def eta(self) -> float:
        """What a bonus counts now."""
        eta = self.settings.eta
        if eta is None:
            eta = 0.05 if self.settings.intrinsic_gamma is None else 1.0
        return scheduled(eta, self.num_env_steps)

    def get_state(self) -> dict[str, Any]:
        return super().get_state() | {"metrics": {n: float(v) for n, v in self._latest.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._latest = dict(state["metrics"])

    # ------------------------------------------------------------------ how

    def _columns(self, rollout: Rollout) -> tuple[Batch, Features]:
        """Return transitions `[T, N, …]`, and features of all rows, `[T+1, N, …]`, on the host."""
        observations = self._policy.observations
        seen: Features = self._seen_parts(self._policy.features(observations.seen(rollout)))
        seen = map_tensors(lambda part: part.to(HOST), seen)
        columns = {"actions": as_tensor(rollout.actions, HOST)}
        columns |= tree_columns("features", map_tensors(lambda part: part[:-1], seen))
        columns |= tree_columns("next_features", map_tensors(lambda part: part[1:], seen))
        return columns, seen

    @cached_property
    def _own_parts(self) -> Seen:
        return Seen(self._policy.observations.preprocessor.spec, normalized=False)

    def _seen_parts(self, features: Features) -> Features:
        """Return features without what is beside the observation."""
        return self._own_parts.parts(features) if isinstance(features, dict) else features

    def _steps_of(self, batch: Batch) -> Batch:
        """Return the transitions of a drawn batch, `[M, …]`; of sequences those trained on."""
        features = self._seen_parts(tree_of(batch, "features"))
        if "rows" in batch:
            late = map_tensors(lambda part: part[self._burn_in :].flatten(0, 1), features)
            before = map_tensors(lambda part: part[batch["rows"]], late)
            after = map_tensors(lambda part: part[batch["next_rows"]], late)
        else:
            before = features
            after = self._seen_parts(tree_of(batch, "next_features"))
        return {
            "actions": batch["actions"],
            **tree_columns("features", before),
            **tree_columns("next_features", after),
        }

    def _observe(self, features: Features) -> None:
        """Take what steps of all ranks led to, `[M, …]`, into statistics and counts."""
        after = map_tensors(lambda part: part.to(self._policy.device), features)
        self.novelty.observe(after, self.ranks)
        if self.settings.intrinsic_gamma is not None:
            self._seen.observe(after, self.ranks)
        if self.visits is not None:
            self.visits.update(after, self.ranks)

    def _bonuses(self, seen: Features, actions: Tensor) -> Tensor:
        """Return the bonuses of a rollout's rows as they are, `[T, N]`, in host memory.

        Args:
            seen: Features, `[T+1, N, …]`.
            actions: `[T, N, …]`.
        """
        device, found = self._policy.device, []
        length = max(1, _ROWS_AT_ONCE // max(1, actions.shape[1]))
        for start in range(0, len(actions), length):
            rows = slice(start, start + length)
            here = _rows(seen, slice(start, start + length + 1), device)
            found.append(self.novelty.rollout_bonus(here, actions[rows].to(device)).to(HOST))
        return torch.cat(found)

    def _sized(self, raw: Tensor) -> Tensor:
        """Return bonuses in the size that `eta` is a weight of."""
        normalize, gamma = self.settings.normalize_bonus, self.settings.intrinsic_gamma
        if normalize is None:
            normalize = not self.novelty.has_size
        sized = raw / self._size.size.to(raw.device) if normalize else raw
        # So that values are about 1, however far they look ahead.
        return sized if gamma is None else sized * (1 - gamma)

    def _advantages(self, seen: Features, bonuses: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Return advantages of bonuses, and the targets of their value function, `[T, N]`."""
        device = self._policy.device
        length = max(1, _ROWS_AT_ONCE // max(1, valid.shape[1]))
        parts = [slice(start, start + length) for start in range(0, len(valid) + 1, length)]
        values = torch.cat([self._values(_rows(seen, rows, device)).to(HOST) for rows in parts])
        gamma = self.settings.intrinsic_gamma
        assert gamma is not None
        advantages = endless_gae(bonuses, values, valid, gamma, self._lambda)
        return advantages, advantages + values[:-1]

    def _values(self, features: Features) -> Tensor:
        return self._value(self._seen(features)).squeeze(-1)

    def _loss(self, trained: nn.Module, batch: Batch) -> tuple[Tensor, Metrics]:
        """Return the loss of all that is trained, means over rows."""
        loss, metrics = torch.zeros((), device=self._policy.device), Metrics()
        if self.novelty.trained is not None:
            loss, metrics = self.novelty.loss(batch)
        if "intrinsic_targets" in batch:
            values = self._values(tree_of(batch, "features"))
            error = (values - batch["intrinsic_targets"]).square().mean()
            loss = loss + 0.5 * error
            metrics = {**metrics, "vf_loss": error.detach()}
        return loss, metrics

    def _report(
        self, losses: Mapping[str, Tensor | float], bonuses: Tensor, rewards: Tensor
    ) -> None:
        """Keep what is reported, of the rows of all ranks."""
        sums = [torch.full((), len(bonuses)), bonuses.sum(), rewards.abs().sum()]
        here = torch.stack([part.to(bonuses.device, torch.float64) for part in sums])
        count, added, given = self.ranks.sum(here).unbind()
        found: dict[str, Tensor | float] = {
            **losses,
            "bonus_mean": added / count.clamp_min(1),
            "intrinsic_share": added / (added + given).clamp_min(torch.finfo(torch.float32).tiny),
            "curr_eta": self.eta,
        }
        if self.visits is not None:
            found["states_visited"] = self.visits.num_states
        elif isinstance(self.novelty, Counts):
            found["states_visited"] = self.novelty.num_states
        self.metrics = self._latest = found


def _learner(trained: nn.Module, settings: ExplorationConfig) -> Learner:
    learner = Learner(trained, _OPTIMIZER)
    learner.set_lr(settings.lr)
    return learner


def _rows(features: Features, rows: slice, device: torch.device) -> Features:
    return map_tensors(lambda part: part[rows].to(device), features)


def endless_gae(
    bonuses: Tensor, values: Tensor, valid: Tensor, gamma: float, lambda_: float
) -> Tensor:
    """Return generalised advantage estimates over the ends of episodes, `[T, N]`; 0 where no step.

    After an episode's last step comes the first one of the next episode. Rows that only reset are
    passed over.

    Args:
        bonuses: `[T, N]`.
        values: Of all observations, `[T+1, N]`.
        valid: Which rows are steps, `[T, N]`, bool.
        gamma: Discount factor.
        lambda_: GAE's lambda.
    """
    advantages = torch.zeros_like(bonuses)
    advantage, next_value = torch.zeros_like(values[0]), values[-1]
    for t in range(len(bonuses) - 1, -1, -1):
        delta = bonuses[t] + gamma * next_value - values[t]
        here = delta + gamma * lambda_ * advantage
        advantage = torch.where(valid[t], here, advantage)
        next_value = torch.where(valid[t], values[t], next_value)
        advantages[t] = torch.where(valid[t], here, 0.0)
    return advantages
