"""A2C: synchronous advantage actor-critic (Mnih et al., 2016, arXiv 1602.01783)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from trainables.algorithm import Algorithm
from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Batch
from trainables.core.distributions.base import Distribution
from trainables.core.learning.coefficients import Coefficient, is_off
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.minibatches import num_items, unrolled
from trainables.core.networks.modules import ModuleOutput, PolicyModule, PolicyValueModule
from trainables.core.reported_metrics import (
    ADVANTAGE_STD,
    ENTROPY,
    ENTROPY_COEFF,
    EXPLAINED_VAR,
    GRAD_NORM,
    LR,
    TOTAL_LOSS,
    learned,
)
from trainables.on_policy import FreshSamples, ModuleWork
from trainables.runtime.learners.group import LearnerWorker
from trainables.settings.a2c import A2CConfig as A2CConfig


class A2C(Algorithm):
    """One gradient step on the advantages of a rollout, then a fresh one."""

    config_class = A2CConfig
    config: A2CConfig
    part_hook = "on_rollout"
    reported_metrics = (
        TOTAL_LOSS,
        learned("policy_loss", "", "-mean log pi(a|s) A (Mnih et al., 2016, algorithm S3)"),
        learned("vf_loss", "reward²", "mean of (V - R)², R the value targets"),
        ENTROPY,
        GRAD_NORM,
        ADVANTAGE_STD,
        EXPLAINED_VAR._replace(when="`use_critic`"),
        LR,
        ENTROPY_COEFF,
    )

    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        self._fresh = FreshSamples(self)

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        self._fresh.modules_changed()

    def training_step(self) -> dict[str, float]:
        self._fresh.learn()
        return self._fresh.metrics()

    def coefficients(self, module_id: str) -> A2CCoefficients:
        """Return the numbers in a module's loss as they are now."""
        config: A2CConfig = self.config_of(module_id)
        return A2CCoefficients(
            value=config.vf_loss_coeff if config.use_critic else 0.0,
            entropy=self.scheduled(config.entropy_coeff),
        )

    @classmethod
    def make_batch(cls, work: ModuleWork) -> Batch:
        """Return the rows that a module learns from."""
        return work.with_advantages(rows_at_once=work.config.microbatch_size)

    @classmethod
    def update_module(cls, work: ModuleWork, coefficients: A2CCoefficients) -> dict[str, float]:
        """Take one gradient step on a module's fresh samples."""
        return work.step(coefficients)

    def get_learned_state(self) -> dict[str, Any]:
        return self._fresh.get_state()

    def set_learned_state(self, state: dict[str, Any]) -> None:
        self._fresh.set_state(state)

    @classmethod
    def make_loss(
        cls, worker: LearnerWorker, module_id: str, coefficients: A2CCoefficients
    ) -> LossFn:
        """Return the loss of a module for one update; see `PPO.make_loss`."""
        distribution = worker.policies[module_id].distribution
        return partial(_loss, distribution=distribution, coefficients=coefficients)

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        return {"microbatch_size": num_items(config.microbatch_size, config.resolve().state_stride)}


def _loss(
    module: PolicyValueModule,
    batch: Batch,
    distribution: Distribution,
    coefficients: A2CCoefficients,
) -> tuple[Tensor, Metrics]:
    return a2c_loss(*unrolled(module, batch), distribution, coefficients)


class A2CCoefficients(NamedTuple):
    """The numbers in the loss of one iteration."""

    value: Coefficient
    entropy: Coefficient


def a2c_loss(
    output: ModuleOutput,
    batch: Batch,
    distribution: Distribution,
    coefficients: A2CCoefficients,
) -> tuple[Tensor, Metrics]:
    """Return the mean of `-log pi(a|s) A - beta H(pi(s)) + c (R - V(s))^2` (algorithm S3).

    Args:
        output: Of the module on the batch: `dist_inputs [B, …]`, `values [B]`.
        batch: actions, advantages A and value_targets R, `[B, …]`.
        distribution: Of the actions.
        coefficients: c and beta.

    Returns:
        The scalar loss, and detached scalars to report.
    """
    logp, entropy = distribution.logp_and_entropy(output.dist_inputs, batch["actions"])
    policy_loss = -(logp * batch["advantages"]).mean()
    value_loss = (output.values - batch["value_targets"]).square().mean()
    mean_entropy = entropy.mean()
    loss = policy_loss
    if not is_off(coefficients.entropy):  # else no gradient flows through it
        loss = loss - coefficients.entropy * mean_entropy
    if not is_off(coefficients.value):
        loss = loss + coefficients.value * value_loss
    return loss, {
        "total_loss": loss.detach(),
        "policy_loss": policy_loss.detach(),
        "vf_loss": value_loss.detach(),
        "entropy": mean_entropy.detach(),
    }


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(A2CConfig)
