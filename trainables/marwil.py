"""MARWIL: imitation weighted by advantages (Wang et al., 2018, NeurIPS 31)."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Batch, tree_columns, tree_of
from trainables.core.data.stored import from_store, to_store
from trainables.core.distributions.base import Distribution
from trainables.core.errors import ConfigError
from trainables.core.learning.coefficients import Coefficient, is_off
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.imitation import Imitated, imitated, imitation_sequences
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.recorded_actions import bounded_log_stds
from trainables.core.learning.returns import explained_by_moments, moments
from trainables.core.networks.modules import PolicyModule
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import (
    EXPLAINED_VAR,
    GRAD_NORM,
    HALF_VALUE_LOSS,
    LR,
    Reported,
    learned,
)
from trainables.off_policy import OffPolicy
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.off_policy_update import of_all_rows, with_a_row
from trainables.settings.marwil import MARWILConfig as MARWILConfig

MAX_WEIGHT = 20.0
"""Of a row in the loss; of a few rows with more a batch would say nothing else."""

_WITH_VALUES = "`beta` > 0"
_MOMENTS = ("return", "return_square", "residual", "residual_square")


class MARWIL(OffPolicy):
    """Imitate what data hold, and more of it where more came of it than was expected."""

    config_class = MARWILConfig
    config: MARWILConfig
    reported_metrics = (
        learned(
            "policy_loss",
            "nats",
            "-mean w log pi(a|s), w the weights of rows (Wang et al., 2018, algorithm 1); with "
            "`bc_logstd_coeff` less that times the mean log sigma",
        ),
        HALF_VALUE_LOSS._replace(when=_WITH_VALUES),
        learned("total_loss", "", "policy_loss + `vf_coeff` x vf_loss"),
        learned(
            "mean_weight", "", "mean of w = min(exp(`beta` A / c), 20), A advantages", _WITH_VALUES
        ),
        learned("mean_ret", "discounted return", "mean of the returns R", _WITH_VALUES),
        EXPLAINED_VAR._replace(when=_WITH_VALUES),
        learned(
            "moving_average_sqd_adv_norm",
            "reward²",
            "moving average of squared advantages, c², after the last update",
            _WITH_VALUES,
        ),
        GRAD_NORM._replace(when="`beta` = 0"),
        learned("policy_grad_norm", "", "the same of the policy alone", _WITH_VALUES),
        learned("vf_grad_norm", "", "the same of the value function alone", _WITH_VALUES),
        LR,
        Reported("num_updates_lifetime", "", "gradient steps so far"),
        Reported("data/num_steps", "env steps", "environment steps in the data"),
        Reported("data/num_epochs", "", "how often the data were trained on, on average"),
    )

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        super().set_up_learning(seed)
        # Learned state, not a setting: under PBT a clone goes on with its donor's.
        self.sqd_adv_norms = {m: self._first_norm(m) for m in self.trained_policies}

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        super().modules_changed(seed)
        known = self.sqd_adv_norms
        self.sqd_adv_norms = {m: known.get(m, self._first_norm(m)) for m in self.trained_policies}

    def _first_norm(self, module_id: str) -> float:
        """Return the moving average c² that a module begins with, whose settings are checked."""
        config, policy = self.config_of(module_id), self.policies[module_id]
        if config.bc_logstd_coeff and not len(policy.distribution.log_std_inputs):
            raise ConfigError(
                f"bc_logstd_coeff = {config.bc_logstd_coeff:g} has no effect on actions of "
                f"{policy.action_space}: they have no standard deviation"
            )
        return float(config.moving_average_sqd_adv_norm_start)

    def learning_rates(self, module_id: str | None = None) -> float:
        config = self.config if module_id is None else self.config_of(module_id)
        return self.scheduled(config.lr)

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        policy = list(module.acting_parameters())
        groups = {"policy": policy}
        if config.beta:
            acting = set(map(id, policy))
            others = [p for p in module.parameters() if id(p) not in acting]
            groups |= {"vf": others} if others else {}
        return {"groups": groups}

    def learn(self, num_new_steps: dict[str, int], rates: dict[str, Any]) -> None:
        for module_id, drawn in self._draws(num_new_steps, beta=1.0):
            batch = self.prepare(self.policies[module_id], drawn.columns)
            found = self.learners.run(
                marwil_update,
                drawn.with_columns(batch),
                module_id,
                type(self),
                rates[module_id],
                self.sqd_adv_norms[module_id],
            )
            self.sqd_adv_norms[module_id] = found.sqd_adv_norm
            self._means[module_id].add(found.names, found.scalars)
            self._num_updates[module_id] += drawn.num_batches
            self.num_env_steps_trained += sum(drawn.num_rows)

    def prepare(self, policy: Policy, batch: Batch) -> Batch:
        if policy.is_recurrent or self._config_of_policy(policy).beta:
            return super().prepare(policy, batch)
        features = tree_columns("features", policy.features(tree_of(batch, "obs")))
        return {"ids": batch["ids"], "actions": batch["actions"], **features}

    @classmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        config, distribution = worker.config_of(module_id), worker.policies[module_id].distribution
        coefficients = MARWILCoefficients(config.beta, config.vf_coeff, config.bc_logstd_coeff)
        return partial(
            _loss, distribution=distribution, coefficients=coefficients, gamma=config.gamma
        )

    def iteration_metrics(self) -> dict[str, float]:
        found = super().iteration_metrics()
        metrics = {n: value for n, value in found.items() if not n.startswith("replay/")}
        for module_id, norm in self.sqd_adv_norms.items():
            if self.config_of(module_id).beta:
                metrics[f"learner/{module_id}/moving_average_sqd_adv_norm"] = norm
        num_steps = self.experience.num_steps
        metrics["data/num_steps"] = num_steps
        metrics["data/num_epochs"] = self.num_env_steps_trained / num_steps
        return metrics

    def get_learned_state(self) -> dict[str, Any]:
        return {**super().get_learned_state(), "sqd_adv_norm": to_store(self.sqd_adv_norms)}

    def set_learned_state(self, state: dict[str, Any]) -> None:
        super().set_learned_state(state)
        stored = from_store(state["sqd_adv_norm"], self.sqd_adv_norms)
        self.sqd_adv_norms = {module_id: float(norm) for module_id, norm in stored.items()}


class Imitation(NamedTuple):
    """What came of updates, over all learners.

    Attributes:
        names: Names of the reported scalars.
        scalars: Their values in each update, `[num_updates, len(names)]`.
        sqd_adv_norm: The moving average of squared advantages after them.
    """

    names: list[str]
    scalars: Tensor
    sqd_adv_norm: float


def marwil_update(
    worker: LearnerWorker,
    drawn: Drawn,
    module_id: str,
    algorithm: type[MARWIL],
    lr: float,
    sqd_adv_norm: float,
) -> Imitation:
    """Take a gradient step on each of the batches.

    Args:
        worker: What is trained.
        drawn: Batches, with what `MARWIL.prepare` makes of them; of several learners each has its
            rows of every batch.
        module_id: Which module they are of.
        algorithm: Says what the loss is.
        lr: Learning rate.
        sqd_adv_norm: The moving average of squared advantages so far, c².
    """
    policy, learner, ranks = worker.policies[module_id], worker.learners[module_id], worker.ranks
    learner.set_lr(lr)
    loss_fn: Any = algorithm.make_loss(worker, module_id)
    # In float64: at a rate of 1e-8, c² = 100 would never move in float32.
    norm = torch.tensor(sqd_adv_norm, dtype=torch.float64, device=policy.device)
    rate = worker.config_of(module_id).moving_average_sqd_adv_norm_update_rate
    steps: list[Metrics] = []
    shares: list[float] = []
    for number, batch in enumerate(drawn.on(policy.device).batches()):
        if drawn.are_sequences:
            state = policy.module.initial_state(batch["valid"].shape[1])
            batch = imitation_sequences(batch, {n: v.to(policy.device) for n, v in state.items()})
        share = None
        if ranks.size > 1:
            share = len(batch["actions"]) / drawn.num_rows[number]
            shares.append(share)
            batch = batch if share else with_a_row(batch)
        batch = worker.with_parts(module_id, batch, share)
        # The weights of a batch are of c² before it.
        metrics = learner.update_step(batch, partial(loss_fn, sqd_adv_norm=norm), share)
        if "sqd_adv" in metrics:
            norm = norm + rate * (ranks.sum(metrics.pop("sqd_adv").clone()) - norm)
        steps.append(metrics)
    names = list(steps[0])
    scalars = torch.stack([value.double() for step in steps for value in step.values()])
    scalars = scalars.view(len(steps), -1)
    if ranks.size > 1:
        weights = torch.tensor(shares, device=scalars.device, dtype=scalars.dtype)[:, None]
        scalars = of_all_rows(names, scalars, weights, ranks)
    return Imitation(*_reported(names, scalars.cpu()), norm.item())


def _reported(names: list[str], scalars: Tensor) -> tuple[list[str], Tensor]:
    """Return scalars `[U, K]` with how well values fitted in place of the moments."""
    if _MOMENTS[0] not in names:
        return names, scalars
    columns = dict(zip(names, scalars.unbind(1), strict=True))
    found = torch.stack([columns.pop(name) for name in _MOMENTS], 1)
    columns["mean_ret"] = found[:, 0]
    explained = [explained_by_moments(*of_update) for of_update in found.tolist()]
    columns["vf_explained_var"] = torch.tensor(explained, dtype=scalars.dtype)
    return list(columns), torch.stack(list(columns.values()), 1)


class MARWILCoefficients(NamedTuple):
    """The numbers in the loss of one update."""

    beta: Coefficient
    value: Coefficient
    log_std: Coefficient


def _loss(
    module: PolicyModule,
    batch: Batch,
    distribution: Distribution,
    coefficients: MARWILCoefficients,
    gamma: float,
    sqd_adv_norm: Tensor,
) -> tuple[Tensor, Metrics]:
    rows = imitated(module, batch, gamma, values=not is_off(coefficients.beta))
    return marwil_loss(rows, distribution, coefficients, sqd_adv_norm)


def marwil_loss(
    rows: Imitated,
    distribution: Distribution,
    coefficients: MARWILCoefficients,
    sqd_adv_norm: Tensor,
) -> tuple[Tensor, Metrics]:
    """Return `mean of -w log pi(a|s) + c1 (R - V(s))^2 / 2` (Wang et al., 2018, algorithm 1).

    Where actions have a log sigma, `c2` times its mean is subtracted, which makes wide policies
    cheaper. Its logarithm is bounded: what is always the same would else have an infinite density.

    Args:
        rows: What the module says of M rows, and their returns R.
        distribution: Of the actions.
        coefficients: beta, c1 and c2.
        sqd_adv_norm: The moving average of squared advantages, c², `[]`.

    Returns:
        The scalar loss, and detached scalars to report.
    """
    inputs, excess, log_std = bounded_log_stds(rows.dist_inputs, distribution)
    logp = distribution.logp(inputs, rows.actions)
    metrics: Metrics = {}
    if is_off(coefficients.beta):
        policy_loss = -logp.mean()
    else:
        advantages = (rows.returns - rows.values).detach()
        weights = advantage_weights(advantages, coefficients.beta, sqd_adv_norm)
        policy_loss = -(weights * logp).mean()
        metrics["mean_weight"] = weights.mean()
    if not is_off(coefficients.log_std):
        policy_loss = policy_loss - coefficients.log_std * log_std
    # Adding a constant 0 gives a tensor that inductor takes for the detached one (torch 2.13).
    loss = policy_loss + excess if len(distribution.log_std_inputs) else policy_loss
    if not is_off(coefficients.beta):
        value_loss = 0.5 * (rows.returns - rows.values).square().mean()
        if not is_off(coefficients.value):
            loss = loss + coefficients.value * value_loss
        of_returns, of_residuals = moments(rows.returns), moments(advantages)
        metrics |= {
            "vf_loss": value_loss.detach(),
            "sqd_adv": of_residuals[1],
            **dict(zip(_MOMENTS, (*of_returns, *of_residuals), strict=True)),
        }
    return loss, {"total_loss": loss.detach(), "policy_loss": policy_loss.detach(), **metrics}


def advantage_weights(advantages: Tensor, beta: Coefficient, sqd_adv_norm: Tensor) -> Tensor:
    """Return `min(exp(beta A / c), 20)` of advantages A `[M]`.

    Args:
        advantages: Without gradient.
        beta: How much more greater ones count.
        sqd_adv_norm: c², `[]`.
    """
    return (beta * advantages / sqd_adv_norm.sqrt()).clamp_max(math.log(MAX_WEIGHT)).exp()


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(MARWILConfig)
