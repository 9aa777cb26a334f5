"""A2C: synchronous advantage actor-critic (Mnih et al., 2016, arXiv 1602.01783)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from trainables.algorithm import Algorithm
from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Batch, Rollout
from trainables.core.distributions.base import Distribution
from trainables.core.learning.advantages import (
    advantage_scale,
    explained_by_values,
    with_advantages,
)
from trainables.core.learning.coefficients import Coefficient, is_off
from trainables.core.learning.fragments import all_steps
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
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.latest_metrics import LatestMetrics
from trainables.runtime.learners.train_choice import TrainChoice
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
        self._choice = TrainChoice(self.config)
        self._latest = LatestMetrics()

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        self._choice = TrainChoice(self.config)
        self._latest.keep(self.trained_policies)

    def training_step(self) -> dict[str, float]:
        rollouts = self._choice(self.sample())  # {module id: Rollout [T, N]}
        rates = {m: self.scheduled(self.config_of(m).lr) for m in rollouts}
        coefficients = {m: self._coefficients(m) for m in rollouts}
        with self.timers("learn"):
            results = self.learners.run(a2c_update, rollouts, rates, coefficients, type(self))
        self.num_env_steps_trained += sum(r.num_env_steps for r in rollouts.values())
        self.sync_weights()
        present = {
            m: {"curr_lr": rates[m], "curr_entropy_coeff": float(coefficients[m].entropy)}
            for m in results
        }
        self._latest.add({m: {**result, **present[m]} for m, result in results.items()})
        return {
            f"learner/{module_id}/{name}": value
            for module_id, result in self._latest.by_module.items()
            for name, value in result.items()
        }

    def _coefficients(self, module_id: str) -> A2CCoefficients:
        config: A2CConfig = self.config_of(module_id)
        return A2CCoefficients(
            value=config.vf_loss_coeff if config.use_critic else 0.0,
            entropy=self.scheduled(config.entropy_coeff),
        )

    def get_learned_state(self) -> dict[str, Any]:
        return self._latest.get_state(self.trained_policies)

    def set_learned_state(self, state: dict[str, Any]) -> None:
        self._latest.set_state(state)

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


def a2c_update(
    worker: LearnerWorker,
    rollouts: dict[str, Rollout],
    rates: dict[str, float],
    coefficients: dict[str, A2CCoefficients],
    algorithm: type[A2C],
) -> dict[str, dict[str, float]]:
    """Take one gradient step on fresh samples.

    Args:
        worker: What is trained.
        rollouts: `[T, N]` by module id; of several learners each has slots of its own.
        rates: Learning rates, by module id.
        coefficients: Of the loss, by module id.
        algorithm: Says what the loss is.

    Returns:
        What the loss reports, and how well values fitted, by module id, of modules with a valid
        row.
    """
    worker.set_rates(rates)
    results = {}
    # All before any update, which may move the encoder of others (`shared_encoders`).
    batches = {
        module_id: _batch(worker, module_id, rollout)
        for module_id, rollout in rollouts.items()
        if all_steps(rollout, worker.ranks)
    }
    for module_id, batch in batches.items():
        config: A2CConfig = worker.config_of(module_id)
        ids = batch.pop("ids", None)
        scale = advantage_scale(batch, config, worker.ranks)
        if config.normalize_advantages:
            batch["advantages"] = scale.normalized(batch["advantages"])
        results[module_id] = worker.learners[module_id].update(
            batch, algorithm.make_loss(worker, module_id, coefficients[module_id]), ids=ids
        )
        results[module_id]["advantage_std"] = scale.std
        results[module_id] |= worker.part_metrics(module_id)
        if config.use_critic:
            results[module_id]["vf_explained_var"] = explained_by_values(batch, worker.ranks)
        worker.share_encoder(module_id)
    return results


def _batch(worker: LearnerWorker, module_id: str, rollout: Rollout) -> Batch:
    config: A2CConfig = worker.config_of(module_id)
    return with_advantages(
        worker.with_parts(module_id, rollout),
        worker.policies[module_id],
        config,
        worker.ranks,
        rows_at_once=config.microbatch_size,
    )


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
