"""`LearnerPart`: networks that train beside a policy, and may change what it learns from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Batch, Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner, LossFn
from trainables.core.learning.minibatches import row_ids
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.policy.policy import Policy


class LearnerPart:
    """Auxiliary networks of one module, with an optimiser, metrics and a checkpoint of their own.

    An algorithm names its parts in `make_learner_parts`. Each is made where the learner is, on all
    ranks with the same weights, and sees what is learned from before any estimator does: override
    `on_rollout` or `on_batch`, and train the networks there. Of a part nothing is in an exported
    policy.

    Args:
        networks: All networks of the part, those that are not trained as well: they are what a
            checkpoint holds. They are on the policy's device before the learner is made of them.
        learner: Trains them; it may have several optimisers, and targets. None: nothing in them is
            trained by gradients.

    Attributes:
        metrics: Numbers of the latest call, of the rows of all ranks; they are reported as
            `learner/<module id>/<part>/<name>`. Before each rollout they are
            cleared.
        generator: Random stream of the part alone, the same on all ranks.
        ranks: Who learns together with this process.
        num_env_steps: Environment steps of the trial when the present update was asked for: what
            schedules go by.
    """

    num_env_steps: int = 0

    def __init__(self, networks: nn.Module, learner: Learner | None = None):
        self.networks, self.own_learner = networks, learner
        self.metrics: Mapping[str, Tensor | float] = {}
        self.generator = torch.Generator()
        self.ranks: Ranks = ALONE

    @property
    def learner(self) -> Learner:
        """What trains the networks."""
        assert self.own_learner is not None, "this part has no learner"
        return self.own_learner

    def join(self, ranks: Ranks, seed: int) -> None:
        """Learn together with other ranks.

        Args:
            ranks: All of them.
            seed: Of the part's random stream: without one of its own, a part would change the
                policy's minibatches by being there.
        """
        self.ranks = ranks
        if self.own_learner is not None:
            self.own_learner.ranks = ranks
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Begin a new random stream."""
        self.generator.manual_seed(seed)

    def on_rollout(self, rollout: Rollout) -> Rollout:
        """Return what the policy is to learn from a rollout, `[T, N]`, e.g. with other rewards.

        Args:
            rollout: What was sampled, through the learner connectors; of several learners each has
                slots of its own. It is not to be changed in place.
        """
        return rollout

    def on_batch(self, batch: Batch, share: Tensor | float | None = None) -> Batch:
        """Return what the policy is to learn from a batch that was drawn from experience.

        Args:
            batch: Columns `[B, …]`, on the learner's device. It is not to be changed in place.
            share: What this rank's rows count in the batch of all ranks, see `Learner.update_step`;
                None without other ranks.
        """
        return batch

    def train(
        self, columns: Batch, valid: Tensor, loss_fn: LossFn, **options: Any
    ) -> dict[str, float]:
        """Take gradient steps on the valid rows of a rollout, over all ranks.

        Args:
            columns: `[T, N, …]` by name.
            valid: Which rows to train on, `[T, N]`, bool.
            loss_fn: The loss, a mean over rows.
            options: Of `Learner.update`, e.g. `num_epochs` and `minibatch_size`.

        Returns:
            Means of what the loss reports; nothing where no rank has a valid row.
        """
        if not int(self.ranks.sum(valid.sum().cpu())):
            return {}
        batch = {name: column[valid] for name, column in columns.items()}
        ids = row_ids(_as_long(valid, self.ranks), self.ranks) if self.ranks.size > 1 else None
        return self.learner.update(batch, loss_fn, generator=self.generator, ids=ids, **options)

    def step(
        self, batch: Batch, loss_fn: LossFn, share: Tensor | float | None = None
    ) -> dict[str, Tensor]:
        """Take one gradient step on a drawn batch, over all ranks.

        Args:
            batch: Columns `[B, …]`.
            loss_fn: The loss, a mean over rows.
            share: As `on_batch` is given it.

        Returns:
            Means of what the loss reports.
        """
        metrics = self.learner.update_step(batch, loss_fn, share)
        if share is None:
            return metrics
        means = self.ranks.sum(torch.stack(list(metrics.values())))
        return dict(zip(metrics, means.unbind(), strict=True))

    def get_state(self) -> dict[str, Any]:
        """Return all weights, what the optimisers have learned, and the random stream."""
        weights = {n: value.detach().clone() for n, value in self.networks.state_dict().items()}
        state: dict[str, Any] = {"weights": weights, "generator": self.generator.get_state()}
        if self.own_learner is not None:
            state["learner"] = self.own_learner.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self.networks.load_state_dict(state["weights"])
        if self.own_learner is not None:
            self.own_learner.set_state(state["learner"])
        if "generator" in state:
            self.generator.set_state(state["generator"])


def _as_long(valid: Tensor, ranks: Ranks) -> Tensor:
    """Return a mask `[T, N]` with rows of False up to the longest T of all ranks."""
    longest = max(len(rows) for rows in ranks.gather(torch.zeros(len(valid), dtype=torch.uint8)))
    return torch.cat([valid, valid.new_zeros(longest - len(valid), valid.shape[1])])


Parts = dict[str, LearnerPart]
"""The parts of one module, by name."""


PartHook = Literal["on_rollout", "on_batch"]
"""What an update calls of parts."""


def check_parts(parts: Parts, policy: Policy, hook: PartHook | None) -> Parts:
    """Return the parts of a policy's module, if they can train beside it.

    Args:
        parts: By name.
        policy: What they train beside.
        hook: What the algorithm's update calls; None: that is not known.

    Raises:
        ConfigError: if a part overrides only what is not called, or is on another device.
    """
    other: PartHook = "on_batch" if hook == "on_rollout" else "on_rollout"
    for name, part in parts.items():
        if hook and _overrides(part, other) and not _overrides(part, hook):
            raise ConfigError(
                f"make_learner_parts: the part {name!r} overrides {other}, which this algorithm "
                f"never calls; override {hook}"
            )
        for network, parameter in part.networks.named_parameters():
            if parameter.device.type != policy.device.type:
                raise ConfigError(
                    f"make_learner_parts: {network} of the part {name!r} is on "
                    f"{parameter.device.type}, the policy on {policy.device.type}; move networks "
                    "by .to(policy.device) before their learner is made"
                )
    return parts


def _overrides(part: LearnerPart, hook: PartHook) -> bool:
    return getattr(type(part), hook) is not getattr(LearnerPart, hook)


def no_parts(config: AlgorithmConfig, policy: Policy) -> Parts:
    """Return no part."""
    return {}
