"""What algorithms share that learn from fresh samples: the loop over modules, and KL penalties."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from trainables.core.data.batch import HOST, Batch, Rollout
from trainables.core.data.stored import from_store, to_store
from trainables.core.learning.advantages import (
    advantage_scale,
    explained_by_values,
    with_advantages,
)
from trainables.core.learning.fragments import all_steps
from trainables.core.learning.learner import LossFn
from trainables.core.learning.minibatches import minibatches, num_items, unrolled
from trainables.core.networks.modules import with_values
from trainables.core.policy.policy import Policy
from trainables.runtime.learners.by_module import LatestMetrics, TrainChoice
from trainables.runtime.learners.group import LearnerWorker


class LearnsFromSamples(Protocol):
    """What an algorithm says of its updates."""

    def make_batch(self, work: ModuleWork) -> Batch:
        """Return what a module learns from; that of all modules is made before any update."""

    def make_loss(self, worker: LearnerWorker, module_id: str, coefficients: Any) -> LossFn:
        """Return the loss of a module for one update."""

    def update_module(self, work: ModuleWork, coefficients: Any) -> dict[str, float]:
        """Take the gradient steps of a module; returns what they report."""


class FreshSamples:
    """The training step of an algorithm that learns from fresh samples and keeps none of them.

    Args:
        algorithm: It says how its modules learn (`LearnsFromSamples`), and by which `coefficients`.
    """

    def __init__(self, algorithm: Any):
        self._algorithm = weakref.proxy(algorithm)  # which holds this
        self._choice = TrainChoice(algorithm.config)
        self._latest = LatestMetrics()

    def modules_changed(self) -> None:
        """Go on with other modules."""
        self._choice = TrainChoice(self._algorithm.config)
        self._latest.keep(self._algorithm.trained_policies)

    def learn(self) -> dict[str, dict[str, float]]:
        """Sample, update and sync weights; returns what `on_policy_update` returns."""
        algorithm: Any = self._algorithm
        rollouts = self._choice(algorithm.sample())  # {module id: Rollout [T, N]}
        lrs = {m: algorithm.config_of(m).lr for m in algorithm.trained_policies}
        rates = {m: algorithm.scheduled(lr) for m, lr in lrs.items()}
        used = {m: algorithm.coefficients(m) for m in rollouts}
        with algorithm.timers("learn"):
            results: dict[str, dict[str, float]] = algorithm.learners.run(
                on_policy_update, rollouts, rates, used, algorithm.__class__
            )
        algorithm.num_env_steps_trained += sum(r.num_env_steps for r in rollouts.values())
        algorithm.sync_weights()
        self._latest.add(results)
        return results

    def metrics(self) -> dict[str, float]:
        """Return what the last update of each module reported."""
        return {
            f"learner/{module_id}/{name}": value
            for module_id, latest in self._latest.by_module.items()
            for name, value in latest.items()
        }

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        return self._latest.get_state(self._algorithm.trained_policies)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `get_state` gave, out of a state that may hold more."""
        self._latest.set_state(state)


def on_policy_update(
    worker: LearnerWorker,
    rollouts: Mapping[str, Rollout],
    rates: Mapping[str, float],
    coefficients: Mapping[str, Any],
    algorithm: LearnsFromSamples,
) -> dict[str, dict[str, float]]:
    """Let each module learn from what it has sampled, in whatever process its learner is.

    Args:
        worker: What is trained.
        rollouts: `[T, N]` by module id; of several learners each has slots of its own.
        rates: Learning rates, by module id.
        coefficients: The numbers in the losses, by module id.
        algorithm: Says how a module learns.

    Returns:
        What updates report and the numbers that they were made with, by id of the modules with a
        valid row.
    """
    worker.set_rates(rates)
    all_work = [
        ModuleWork(worker, module_id, rollout, algorithm)
        for module_id, rollout in rollouts.items()
        if all_steps(rollout, worker.ranks)
    ]
    # All before any update: one may move the encoder of others (`shared_encoders`), whose values,
    # and whose old policy in the KL penalty, would be of no policy that ever acted.
    for work in all_work:
        work.batch = algorithm.make_batch(work)
    results = {}
    for work in all_work:
        used = coefficients[work.module_id]
        results[work.module_id] = {
            **algorithm.update_module(work, used),
            "curr_lr": rates[work.module_id],
            "curr_entropy_coeff": float(used.entropy),
        }
        worker.share_encoder(work.module_id)
    return results


class ModuleWork:
    """What a module learns from a rollout, in one update.

    Args:
        worker: What is trained.
        module_id: Which module learns.
        rollout: What it has sampled, `[T, N]`.
        algorithm: Says what its loss is.

    Attributes:
        worker: See the argument.
        module_id: See the argument.
        config: The settings that the module learns by.
        policy: The module's.
        batch: What it learns from, see `LearnsFromSamples.make_batch`.
    """

    batch: Batch

    def __init__(
        self,
        worker: LearnerWorker,
        module_id: str,
        rollout: Rollout,
        algorithm: LearnsFromSamples,
    ):
        self.worker, self.module_id = worker, module_id
        self.config: Any = worker.config_of(module_id)
        self.policy = worker.policies[module_id]
        self._rollout, self._algorithm = rollout, algorithm

    @property
    def is_compiled(self) -> bool:
        """Whether the loss is compiled."""
        return self.worker.resolved_of(self.module_id).compile is not None

    @property
    def items_at_once(self) -> int | None:
        """Rows, or sequences, of a minibatch; None: all."""
        stride = self.worker.resolved_of(self.module_id).state_stride
        return num_items(self.config.minibatch_size, stride)

    def with_advantages(self, *, rows_at_once: int | None, dist_inputs: bool = False) -> Batch:
        """Return the rows that are trained on; see the function of the name.

        Args:
            rows_at_once: Rows that are on the policy's device at the same time.
            dist_inputs: Whether the parameters of the action distributions are needed.
        """
        return with_advantages(
            self.worker.with_parts(self.module_id, self._rollout),
            self.policy,
            self.config,
            self.worker.ranks,
            dist_inputs=dist_inputs,
            rows_at_once=rows_at_once,
        )

    def step(self, coefficients: Any) -> dict[str, float]:
        """Take one gradient step on the batch; see `epochs`."""
        return self._learn(coefficients, in_minibatches=False)

    def epochs(self, coefficients: Any) -> dict[str, float]:
        """Take the settings' epochs of minibatch steps.

        With `normalize_advantages` each minibatch's are normalised. Of a few sequences the rows are
        too much alike: of a policy with a memory those of the whole batch are.

        Args:
            coefficients: The numbers in the loss.

        Returns:
            What losses report, means over all steps, and what is known of advantages, values and
            parts.
        """
        generator = self.worker.generator
        return self._learn(
            coefficients,
            in_minibatches=not self.policy.is_recurrent,
            num_epochs=self.config.num_epochs,
            minibatch_size=self.items_at_once,
            generator=generator if self.config.shuffle_batch_per_epoch else None,
        )

    def _learn(
        self, coefficients: Any, *, in_minibatches: bool, **options: Any
    ) -> dict[str, float]:
        worker, batch, config = self.worker, self.batch, self.config
        ids, normalize = batch.pop("ids", None), None
        scale = advantage_scale(batch, config, worker.ranks)
        if config.normalize_advantages and in_minibatches:
            normalize = {"advantages": scale.least_std}
        elif config.normalize_advantages:
            batch["advantages"] = scale.normalized(batch["advantages"])
        loss_fn = self._algorithm.make_loss(worker, self.module_id, coefficients)
        learner = worker.learners[self.module_id]
        metrics = learner.update(batch, loss_fn, normalize=normalize, ids=ids, **options)
        metrics["advantage_std"] = scale.std
        metrics |= worker.part_metrics(self.module_id)
        if config.use_critic:
            metrics["vf_explained_var"] = explained_by_values(batch, worker.ranks)
        return metrics

    def divergence(self) -> float:
        """Return the KL divergence from the policy that sampled, over all ranks' rows, nats."""
        divergences = policy_divergence(self.batch, self.policy, self.items_at_once)
        return torch.cat(self.worker.ranks.gather(divergences)).mean().item()


class KLCoefficients(dict[str, float]):
    """Weights of modules' KL penalties, by module id; they adapt to how far policies move.

    They are learned state, not a setting: under PBT a clone goes on with its donor's.

    Args:
        algorithm: Whose modules they are of.
    """

    def __init__(self, algorithm: Any):
        super().__init__()
        self._algorithm = weakref.proxy(algorithm)  # which holds this
        self.modules_changed()

    def modules_changed(self) -> None:
        """Begin with those of new modules, and forget those of modules that are gone."""
        before, config_of = dict(self), self._algorithm.config_of
        self.clear()
        for module_id in self._algorithm.trained_policies:
            self[module_id] = before.get(module_id, config_of(module_id).kl_coeff)

    def adapt(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Adapt each module's weight to the KL divergence after its update.

        Args:
            results: What updates report, by module id.
        """
        for module_id, result in results.items():
            config = self._algorithm.config_of(module_id)
            if config.use_kl_loss:
                self[module_id] = adapted_kl_coeff(
                    self[module_id], result["kl_after_update"], config.kl_target
                )

    def get_state(self) -> Any:
        """Return what a checkpoint holds."""
        return to_store(dict(self))

    def set_state(self, state: Any) -> None:
        """Take over `get_state`'s."""
        stored = from_store(state, [*self])
        self.clear()
        self.update({module_id: float(value) for module_id, value in stored.items()})


def adapted_kl_coeff(kl_coeff: float, kl: float, kl_target: float) -> float:
    """Return the KL penalty's next weight: stronger far above the target, weaker far below it."""
    if kl > 2.0 * kl_target:
        return kl_coeff * 1.5
    if kl < 0.5 * kl_target:
        return kl_coeff * 0.5
    return kl_coeff


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
