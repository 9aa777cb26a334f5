"""Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainables.algorithm import Algorithm
from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import HOST, Batch, Rollout
from trainables.core.data.stored import from_store, to_store
from trainables.core.distributions.base import Distribution
from trainables.core.learning.advantages import (
    advantage_scale,
    explained_by_values,
    with_advantages,
)
from trainables.core.learning.coefficients import Coefficient, clipped, is_off, traced
from trainables.core.learning.fragments import all_steps
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.minibatches import minibatches, num_items, unrolled
from trainables.core.learning.ranks import Ranks
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule, with_values
from trainables.core.policy.policy import Policy
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
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.latest_metrics import LatestMetrics
from trainables.runtime.learners.train_choice import TrainChoice
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
        # Learned state, not a setting: under PBT a clone goes on with its donor's.
        self.kl_coeffs = {m: self.config_of(m).kl_coeff for m in self.trained_policies}
        self._choice = TrainChoice(self.config)
        self._latest = LatestMetrics()

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        before = self.kl_coeffs
        own = {m: self.config_of(m).kl_coeff for m in self.trained_policies}
        self.kl_coeffs = {m: before.get(m, value) for m, value in own.items()}
        self._choice = TrainChoice(self.config)
        self._latest.keep(own)

    def training_step(self) -> dict[str, float]:
        rollouts = self._choice(self.sample())  # {module id: Rollout [T, N]}
        rates = {m: self.scheduled(self.config_of(m).lr) for m in self.trained_policies}
        coefficients = {module_id: self.coefficients(module_id) for module_id in rollouts}
        with self.timers("learn"):
            results = self.learners.run(ppo_update, rollouts, rates, coefficients, type(self))
        self.num_env_steps_trained += sum(r.num_env_steps for r in rollouts.values())
        self.sync_weights()
        self.adapt_kl(results)
        return self.learner_metrics(results, rates, coefficients)

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

    def adapt_kl(self, results: dict[str, dict[str, float]]) -> None:
        """Adapt the weight of each module's KL penalty to how far its policy has moved."""
        for module_id, result in results.items():
            config: PPOConfig = self.config_of(module_id)
            if config.use_kl_loss:
                self.kl_coeffs[module_id] = adapted_kl_coeff(
                    self.kl_coeffs[module_id], result["kl_after_update"], config.kl_target
                )

    def learner_metrics(
        self,
        results: dict[str, dict[str, float]],
        rates: dict[str, float],
        coefficients: dict[str, PPOCoefficients],
    ) -> dict[str, float]:
        """Return what modules' last updates report, with the numbers that they were made with."""
        for module_id, result in results.items():
            used = coefficients[module_id]
            numbers = {"curr_lr": rates[module_id], "curr_entropy_coeff": float(used.entropy)}
            if self.config_of(module_id).use_kl_loss:
                numbers = {"curr_kl_coeff": float(used.kl), **numbers}
            self._latest.add({module_id: {**result, **numbers}})
        return {
            f"learner/{module_id}/{name}": value
            for module_id, latest in self._latest.by_module.items()
            for name, value in latest.items()
        }

    def get_learned_state(self) -> dict[str, Any]:
        return {"kl_coeff": to_store(self.kl_coeffs), **self._latest.get_state(self.kl_coeffs)}

    def set_learned_state(self, state: dict[str, Any]) -> None:
        stored = from_store(state["kl_coeff"], self.kl_coeffs)
        self.kl_coeffs = {module_id: float(value) for module_id, value in stored.items()}
        self._latest.set_state(state)


def ppo_update(
    worker: LearnerWorker,
    rollouts: dict[str, Rollout],
    rates: dict[str, float],
    coefficients: dict[str, PPOCoefficients],
    algorithm: type[PPO],
) -> dict[str, dict[str, float]]:
    """Take several epochs of minibatch steps on fresh samples.

    Args:
        worker: What is trained.
        rollouts: `[T, N]` by module id; of several learners each has slots of its own.
        rates: Learning rates, by module id.
        coefficients: The numbers in the loss, by module id.
        algorithm: Says what the loss is.

    Returns:
        What losses report, means over all steps, and what is known afterwards, by module id, of
        modules with a valid row.
    """
    worker.set_rates(rates)
    results = {}
    # All before any update: one may move the encoder of others (`shared_encoders`), whose values,
    # and whose old policy in the KL penalty, would be of no policy that ever acted.
    batches = {
        module_id: _batch(worker, module_id, rollout)
        for module_id, rollout in rollouts.items()
        if all_steps(rollout, worker.ranks)
    }
    for module_id, batch in batches.items():
        config: PPOConfig = worker.config_of(module_id)
        resolved, policy = worker.resolved_of(module_id), worker.policies[module_id]
        items_at_once = num_items(config.minibatch_size, resolved.state_stride)
        ids = batch.pop("ids", None)
        scale = advantage_scale(batch, config, worker.ranks)
        in_minibatches = config.normalize_advantages and not policy.is_recurrent
        if config.normalize_advantages and not in_minibatches:
            # Of a few sequences the rows are too much alike: all are normalised at once.
            batch["advantages"] = scale.normalized(batch["advantages"])
        used = coefficients[module_id]
        if resolved.compile is not None:
            used = used._replace(clip=traced(used.clip, policy.device))
        results[module_id] = worker.learners[module_id].update(
            batch,
            algorithm.make_loss(worker, module_id, used),
            num_epochs=config.num_epochs,
            minibatch_size=items_at_once,
            generator=worker.generator if config.shuffle_batch_per_epoch else None,
            normalize={"advantages": scale.least_std} if in_minibatches else None,
            ids=ids,
        )
        results[module_id]["advantage_std"] = scale.std
        results[module_id] |= worker.part_metrics(module_id)
        results[module_id] |= diagnostics(batch, policy, config, items_at_once, worker.ranks)
        worker.share_encoder(module_id)
    return results


def _batch(worker: LearnerWorker, module_id: str, rollout: Rollout) -> Batch:
    config: PPOConfig = worker.config_of(module_id)
    return with_advantages(
        worker.with_parts(module_id, rollout),
        worker.policies[module_id],
        config,
        worker.ranks,
        dist_inputs=config.use_kl_loss,
        rows_at_once=config.minibatch_size,
    )


def _loss(
    module: PolicyValueModule,
    batch: Batch,
    distribution: Distribution,
    coefficients: PPOCoefficients,
) -> tuple[Tensor, Metrics]:
    return ppo_loss(*unrolled(module, batch), distribution, coefficients)


def diagnostics(
    batch: Batch, policy: Policy, config: PPOConfig, items_at_once: int | None, ranks: Ranks
) -> dict[str, float]:
    """Return how well the values fitted, and how far the policy has moved, over all ranks' rows."""
    found: dict[str, float] = {}
    if config.use_critic:
        found["vf_explained_var"] = explained_by_values(batch, ranks)
    if config.use_kl_loss:
        divergences = policy_divergence(batch, policy, items_at_once)
        found["kl_after_update"] = torch.cat(ranks.gather(divergences)).mean().item()
    return found


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


@torch.no_grad()
def policy_divergence(batch: Batch, policy: Policy, items_at_once: int | None = None) -> Tensor:
    """KL divergence of the present policy from the one that sampled each row, nats, `[M]`.

    Args:
        batch: Of `with_advantages`.
        policy: As it is now.
        items_at_once: Rows, or sequences, that are on the policy's device at the same time; on the
            CPU all are.
    """
    if policy.device == HOST or not len(batch["dist_inputs"]):
        items_at_once = None
    parts = []
    for part in minibatches(batch, 1, items_at_once, None):
        here = {name: column.to(policy.device) for name, column in part.items()}
        output, rows = unrolled(with_values(policy.module), here)
        parts.append(policy.distribution.kl(rows["dist_inputs"], output.dist_inputs))
    return torch.cat(parts).to(HOST)


def adapted_kl_coeff(kl_coeff: float, kl: float, kl_target: float) -> float:
    """Return the KL penalty's next weight: stronger far above the target, weaker far below it."""
    if kl > 2.0 * kl_target:
        return kl_coeff * 1.5
    if kl < 0.5 * kl_target:
        return kl_coeff * 0.5
    return kl_coeff


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(PPOConfig)
