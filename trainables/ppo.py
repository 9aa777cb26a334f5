"""Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainables.algorithm import Algorithm
from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Batch
from trainables.core.distributions.base import Distribution
from trainables.core.learning.coefficients import Coefficient, clipped, is_off, traced
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.minibatches import unrolled
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule
from trainables.core.reported_metrics import (
    ADVANTAGE_STD,
    CLIP_FRACTION,
    ENTROPY,
    ENTROPY_COEFF,
    EXPLAINED_VAR,
    GRAD_NORM,
    LR,
    TOTAL_LOSS_WITH_KL,
    WITH_KL,
    learned,
)
from trainables.on_policy import FreshSamples, KLCoefficients, ModuleWork
from trainables.runtime.learners.group import LearnerWorker
from trainables.settings.ppo import PPOConfig as PPOConfig


class PPO(Algorithm):
    """Several epochs of minibatch steps on the clipped surrogate, then fresh samples."""

    config_class = PPOConfig
    config: PPOConfig
    part_hook = "on_rollout"
    reported_metrics = (
        TOTAL_LOSS_WITH_KL,
        learned(
            "policy_loss",
            "",
            "-mean min(r A, clip(r) A), r the probability ratio to the policy that sampled "
            "(Schulman et al., 2017, eq. 7). A is normalised, so its size says little",
        ),
        learned(
            "vf_loss",
            "reward²",
            "mean of min((V - R)², `vf_clip_param`), R the value targets (eq. 9)",
        ),
        ENTROPY,
        learned(
            "approx_kl",
            "nats",
            "mean of (r - 1) - log r, which estimates KL(old || new) (Schulman, 2020), over the "
            "gradient steps; 0.01 to 0.03 is usual, more means large steps",
        ),
        CLIP_FRACTION,
        learned("mean_kl", "nats", "KL(old || new), over the gradient steps", WITH_KL),
        learned(
            "kl_after_update",
            "nats",
            "KL(old || new) over the train batch after the last epoch; the KL coefficient adapts "
            "to it",
            WITH_KL,
        ),
        learned("curr_kl_coeff", "", "the KL coefficient of this iteration", WITH_KL),
        GRAD_NORM,
        ADVANTAGE_STD,
        EXPLAINED_VAR._replace(when="`use_critic`"),
        LR,
        ENTROPY_COEFF,
    )

    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        self.kl_coeffs = KLCoefficients(self)
        self._fresh = FreshSamples(self)

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        self.kl_coeffs.modules_changed()
        self._fresh.modules_changed()

    def training_step(self) -> dict[str, float]:
        self.kl_coeffs.adapt(self._fresh.learn())
        return self._fresh.metrics()

    @classmethod
    def make_batch(cls, work: ModuleWork) -> Batch:
        """Return the rows that a module learns from."""
        config: PPOConfig = work.config
        return work.with_advantages(
            dist_inputs=config.use_kl_loss, rows_at_once=config.minibatch_size
        )

    @classmethod
    def update_module(cls, work: ModuleWork, coefficients: PPOCoefficients) -> dict[str, float]:
        """Take several epochs of minibatch steps on a module's fresh samples."""
        used = coefficients
        if work.is_compiled:
            used = used._replace(clip=traced(used.clip, work.policy.device))
        metrics = work.epochs(used)
        if work.config.use_kl_loss:
            metrics["kl_after_update"] = work.divergence()
            metrics["curr_kl_coeff"] = float(used.kl)
        return metrics

    @classmethod
    def make_loss(
        cls, worker: LearnerWorker, module_id: str, coefficients: PPOCoefficients
    ) -> LossFn:
        """Return the loss of a module for one update, in whatever process it learns.

        A subclass with a loss of its own overrides it.

        Args:
            worker: What is trained; `worker.config_of(module_id)` are the module's settings.
            module_id: Which module learns.
            coefficients: The numbers in the loss as they are now.

        Returns:
            A function (module, batch) -> (scalar loss, detached scalars to report).
        """
        distribution = worker.policies[module_id].distribution
        return partial(_loss, distribution=distribution, coefficients=coefficients)

    def coefficients(self, module_id: str) -> PPOCoefficients:
        """Return the numbers in a module's loss as they are now."""
        config: PPOConfig = self.config_of(module_id)
        return PPOCoefficients(
            clip=self.scheduled(config.clip_param),
            entropy=self.scheduled(config.entropy_coeff),
            kl=self.kl_coeffs[module_id] if config.use_kl_loss else 0.0,
            value=config.vf_loss_coeff if config.use_critic else 0.0,
            value_clip=config.vf_clip_param,
        )

    def get_learned_state(self) -> dict[str, Any]:
        return {"kl_coeff": self.kl_coeffs.get_state(), **self._fresh.get_state()}

    def set_learned_state(self, state: dict[str, Any]) -> None:
        self.kl_coeffs.set_state(state["kl_coeff"])
        self._fresh.set_state(state)


def _loss(
    module: PolicyValueModule,
    batch: Batch,
    distribution: Distribution,
    coefficients: PPOCoefficients,
) -> tuple[Tensor, Metrics]:
    return ppo_loss(*unrolled(module, batch), distribution, coefficients)


class PPOCoefficients(NamedTuple):
    """The numbers in the loss of one iteration."""

    clip: Coefficient
    entropy: Coefficient
    kl: Coefficient
    value: Coefficient
    value_clip: Coefficient | None


def ppo_loss(
    output: ModuleOutput,
    batch: Batch,
    distribution: Distribution,
    coefficients: PPOCoefficients,
) -> tuple[Tensor, Metrics]:
    """Clipped surrogate (eq. 7) + value loss (eq. 9) - entropy bonus (+ KL penalty, eq. 8).

    Args:
        output: Of the module on the minibatch: `dist_inputs [B, …]`, `values [B]`.
        batch: actions, logp, advantages, value_targets (and dist_inputs), `[B, …]`.
        distribution: Of the actions.
        coefficients: Clip range and weights.

    Returns:
        The scalar loss, and detached scalars to report.
    """
    logp, entropy = distribution.logp_and_entropy(output.dist_inputs, batch["actions"])
    advantages = batch["advantages"]
    log_ratio = logp - batch["logp"]
    ratio = log_ratio.exp()
    bounded = clipped(ratio, coefficients.clip)
    policy_loss = -torch.minimum(ratio * advantages, bounded * advantages).mean(-1)
    mean_entropy = entropy.mean(-1)
    loss = policy_loss
    if not is_off(coefficients.entropy):  # else no gradient flows through it
        loss = loss - coefficients.entropy * mean_entropy

    value_error = (output.values - batch["value_targets"]).square()
    if coefficients.value_clip is not None:
        value_error = value_error.clamp_max(coefficients.value_clip)
    value_loss = value_error.mean(-1)
    if not is_off(coefficients.value):
        loss = loss + coefficients.value * value_loss

    with torch.no_grad():
        # E[(r - 1) - log r] >= 0 estimates KL(old || new) with little variance (Schulman, 2020).
        approx_kl = ((ratio - 1) - log_ratio).mean(-1)
        clip_fraction = (bounded != ratio).to(ratio).mean(-1)
    metrics = {
        "policy_loss": policy_loss.detach(),
        "vf_loss": value_loss.detach(),
        "entropy": mean_entropy.detach(),
        "approx_kl": approx_kl,
        "clip_fraction": clip_fraction,
    }
    if "dist_inputs" in batch:
        mean_kl = distribution.kl(batch["dist_inputs"], output.dist_inputs).mean(-1)
        loss = loss + coefficients.kl * mean_kl
        metrics["mean_kl"] = mean_kl.detach()
    metrics["total_loss"] = loss.detach()
    return loss, metrics


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(PPOConfig)
