"""APPO, published as IMPACT (Luo et al., 2019, arXiv 1912.00167): PPO's loss, asynchronously."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from trainables.core.config.own_settings import default_config_of
from trainables.core.config.resolved import exact
from trainables.core.data.batch import Batch, Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.core.learning.advantages import all_rows, explained_by_values
from trainables.core.learning.coefficients import traced
from trainables.core.learning.fragments import fragments_per_step
from trainables.core.learning.impact import APPOCoefficients, impact_batch, minibatch_loss
from trainables.core.learning.learner import LossFn
from trainables.core.learning.minibatches import consecutive_ids
from trainables.core.learning.ranks import Ranks
from trainables.core.learning.returns import Estimation, standard_deviation
from trainables.core.networks.modules import PolicyModule, with_values
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import (
    ADVANTAGE_STD,
    ASYNCHRONOUS,
    CLIP_FRACTION,
    HALF_VALUE_LOSS,
    TOTAL_LOSS_WITH_KL,
    WITH_KL,
    Reported,
    learned,
)
from trainables.impala import IMPALA, update_modules
from trainables.on_policy import KLCoefficients, policy_divergence
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.sampling.fragment_queue import CircularBuffer, sample_of_state, sample_state
from trainables.runtime.sampling.group import Sample
from trainables.settings.appo import APPOConfig as APPOConfig


class APPO(IMPALA):
    """PPO's clipped surrogate against a target network, on train batches that come N x K times."""

    config_class = APPOConfig
    config: APPOConfig
    reported_metrics = (
        TOTAL_LOSS_WITH_KL,
        learned(
            "policy_loss",
            "",
            "PPO's clipped surrogate with r = min(pi_worker / pi_target, rho) pi / pi_worker (Luo "
            "et al., 2019, 3.1)",
        ),
        HALF_VALUE_LOSS,
        CLIP_FRACTION,
        learned("mean_kl", "nats", "KL(target network || policy), over the gradient steps"),
        learned("mean_rho", "", "mean of pi_target / pi_worker, unclipped; 1: they agree"),
        learned(
            "kl_after_update", "nats", "KL(target network || policy) after the last epoch", WITH_KL
        ),
        learned(
            "curr_kl_coeff",
            "",
            "the KL coefficient; adapts when the target network moves",
            WITH_KL,
        ),
        ADVANTAGE_STD,
        learned("target_updated", "0 or 1", "whether the last update moved the target network"),
        *ASYNCHRONOUS,
        Reported(
            "circular_buffer/num_batches", "train batches", "train batches in the circular buffer"
        ),
        Reported(
            "circular_buffer/num_dropped_draws",
            "draws",
            "draws lost so far because batches came faster than they were drawn",
        ),
    )
    trains_again_by = "circular_buffer_iterations_per_batch"

    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        self.kl_coeffs = KLCoefficients(self)

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        super().modules_changed(seed)
        self.kl_coeffs.modules_changed()

    def _forget_fragments(self, seed: np.random.SeedSequence) -> None:
        super()._forget_fragments(seed)
        config = self.config
        size, uses = config.circular_buffer_num_batches, config.circular_buffer_iterations_per_batch
        self._buffer = CircularBuffer[list[Sample]](size, uses)

    def _target_period(self, config: APPOConfig) -> Fraction:
        """Return how many updates there are from one move of a target network to the next."""
        size, uses = config.circular_buffer_num_batches, config.circular_buffer_iterations_per_batch
        return exact(config.target_network_update_freq) * size * uses

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        options = super().learner_options(config, module)
        return {**options, "targets": {"policy" if options else "all": module}}

    @property
    def trains_again(self) -> bool:
        return self.config.circular_buffer_iterations_per_batch > 1

    def next_fragments(self) -> list[Sample]:
        """Return a train batch of the buffer. Waits only while none may be drawn."""
        with self.timers("sample"):
            if self.config.num_env_runners:  # in process it would sample one
                self._receive(0.0)
            self._store()
            while not self._buffer.has_next:
                self._await_fragments()
                self._store()
        return self._buffer.draw()

    def _store(self) -> None:
        """Put whole train batches into the circular buffer."""
        while (batch := self._fragments.next_batch()) is not None:
            self._buffer.add(batch)

    def submit(self, fragments: list[Sample]) -> None:
        rollouts = [fragment.rollouts for fragment in fragments]
        plans = {
            m: APPOPlan(
                self._of_module(m, self.estimation), self._appo_coefficients(m), self._tau_now(m)
            )
            for m in self.modules_to_train(rollouts)
        }
        self.learners.submit(appo_update, rollouts, self._rates(plans), plans)

    def _tau_now(self, module_id: str) -> float | None:
        """Return how far a target network moves after the next update; None: not at all."""
        config: APPOConfig = self.config_of(module_id)
        # Counted anew each time: those that are lost with a learner have moved nothing.
        before, period = self._num_updates + self.learners.num_queued, self._target_period(config)
        return config.tau if (before + 1) // period > before // period else None

    def estimation(self, module_id: str | None = None) -> Estimation:
        estimation = super().estimation(module_id)
        config = self.config if module_id is None else self.config_of(module_id)
        return estimation if config.use_gae else estimation._replace(lambda_=1.0)

    def _appo_coefficients(self, module_id: str) -> APPOCoefficients:
        config: APPOConfig = self.config_of(module_id)
        return APPOCoefficients(
            clip=self.scheduled(config.clip_param),
            target_worker_clipping=config.target_worker_clipping,
            value=config.vf_loss_coeff,
            entropy=self.scheduled(config.entropy_coeff),
            kl=self.kl_coeffs[module_id] if config.use_kl_loss else 0.0,
        )

    def take_in(self, results: dict[str, dict[str, float]]) -> None:
        """Adapt each penalty's weight to how far the policy was from a target that has moved."""
        self.kl_coeffs.adapt({m: r for m, r in results.items() if r["target_updated"]})

    def learner_metrics(self, results: dict[str, dict[str, float]], lag: float) -> dict[str, float]:
        metrics = super().learner_metrics(results, lag)
        metrics |= {
            "circular_buffer/num_batches": len(self._buffer),
            "circular_buffer/num_dropped_draws": self._buffer.num_dropped,
        }
        return metrics | {
            f"learner/{m}/curr_kl_coeff": self.kl_coeffs[m]
            for m in results
            if self.config_of(m).use_kl_loss
        }

    def get_learned_state(self) -> dict[str, Any]:
        return {
            **super().get_learned_state(),
            "kl_coeff": self.kl_coeffs.get_state(),
            "num_dropped_draws": self._buffer.num_dropped,
        }

    def set_learned_state(self, state: dict[str, Any]) -> None:
        super().set_learned_state(state)
        self.kl_coeffs.set_state(state["kl_coeff"])
        self._buffer.num_dropped = int(state["num_dropped_draws"])

    def state_besides_policies(self) -> dict[str, Any]:
        state = super().state_besides_policies()
        if self.config.store_buffer_in_checkpoints:
            layouts = self._layouts
            state["circular_buffer"] = [
                entry and [[sample_state(sample, layouts) for sample in entry[0]], entry[1]]
                for entry in self._buffer.get_state()
            ]
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        layouts = self._layouts
        self._buffer.set_state(
            [
                entry and ([sample_of_state(sample, layouts) for sample in entry[0]], entry[1])
                for entry in state.get("circular_buffer", [])
            ]
        )

    @property
    def _layouts(self) -> dict[str, ObservationLayout]:
        return {m: policy.observations.layout for m, policy in self.trained_policies.items()}


class APPOPlan(NamedTuple):
    """What is known of a module's update before it is made.

    Attributes:
        estimation: Discounts and bounds of V-trace.
        coefficients: The numbers in the loss.
        tau: How far the target network moves afterwards; None: it stays.
    """

    estimation: Estimation
    coefficients: APPOCoefficients
    tau: float | None


def appo_update(
    worker: LearnerWorker,
    fragments: list[dict[str, Rollout]],
    rates: dict[str, float | dict[str, float]],
    plans: dict[str, APPOPlan],
) -> dict[str, dict[str, float]]:
    """Take gradient steps on a train batch that may have been trained on before.

    Args:
        worker: What is trained.
        fragments: Rollouts `[T, N]` by module id, of any number of env runners.
        rates: Learning rates, or one by group, by id of the modules that are trained.
        plans: What else is known of their updates. Targets move by the clock of train batches,
            also those of a module that did not act in this one.

    Returns:
        What losses report, means over all steps, by module id, of modules that acted in any.
    """
    return update_modules(worker, fragments, rates, plans, _learn, _move_target)


def _learn(
    worker: LearnerWorker, module_id: str, rollout: Rollout, plan: APPOPlan
) -> dict[str, float]:
    config: APPOConfig = worker.config_of(module_id)
    policy, learner = worker.policies[module_id], worker.learners[module_id]
    [target] = learner.targets.values()
    batch = impact_batch(rollout, policy, with_values(target.network), plan.estimation)
    size = config.minibatch_size
    if policy.is_recurrent:
        size = fragments_per_step(config, rollout, worker.ranks)
    used = plan.coefficients
    if worker.resolved.compile is not None:
        used = used._replace(clip=traced(used.clip, policy.device))
    metrics: dict[str, float] = learner.update(
        batch,
        make_loss(policy, used),
        num_epochs=config.num_epochs,
        minibatch_size=size,
        generator=worker.generator if config.shuffle_batch_per_epoch else None,
        ids=consecutive_ids(len(batch["advantages"]), worker.ranks),
    )
    metrics["target_updated"] = float(plan.tau is not None)
    return metrics | diagnostics(batch, policy, config, size, worker.ranks)


def _move_target(worker: LearnerWorker, module_id: str, plan: APPOPlan) -> None:
    """Move a module's target network, by the clock of train batches."""
    if plan.tau is not None:
        learner = worker.learners[module_id]
        [group] = learner.targets
        learner.update_target(group, plan.tau)


def diagnostics(
    batch: Batch, policy: Policy, config: APPOConfig, items_at_once: int | None, ranks: Ranks
) -> dict[str, float]:
    """Return how advantages deviate, values fit, and how far the policy is from the target.

    Over all ranks' rows.
    """
    [advantages] = all_rows(batch, ranks, "advantages")
    found = {
        "advantage_std": standard_deviation(advantages),
        "vf_explained_var": explained_by_values(batch, ranks),
    }
    if config.use_kl_loss:
        seen = {**batch, "dist_inputs": batch["target_inputs"]}
        divergences = policy_divergence(seen, policy, items_at_once)
        found["kl_after_update"] = torch.cat(ranks.gather(divergences)).mean().item()
    return found


def make_loss(policy: Policy, coefficients: APPOCoefficients) -> LossFn:
    """Return `appo_loss` of a policy's module and a batch."""
    return partial(minibatch_loss, distribution=policy.distribution, coefficients=coefficients)


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(APPOConfig)
