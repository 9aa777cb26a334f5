"""How Q of the target policy is estimated from recorded steps: fitted Q evaluation, and Q-reg."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.recorded.estimators import QModelSettings
from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import RecordedEpisodes, backward_sums
from trainables.core.estimation.evaluator import OffPolicyEstimator
from trainables.core.estimation.importance_weights import ImportanceWeights
from trainables.core.estimation.q_function import QFunction
from trainables.core.estimation.target_policy import TargetPolicy
from trainables.core.learning.optimizers import step

_LARGEST_WEIGHT = 100.0


@dataclass
class ModelBasedEstimator(QModelSettings, OffPolicyEstimator):
    """Part of estimators with a Q-function of the target policy."""

    def fit(
        self,
        recorded: RecordedEpisodes,
        target: TargetPolicy,
        steps: np.ndarray,
        rng: np.random.Generator,
    ) -> QFunction:
        """Return the Q-function of the target policy, fitted on some steps.

        Args:
            recorded: What was recorded.
            target: Whose values they are.
            steps: The numbers of the steps, `[M]`; one that is there twice counts twice.
            rng: Seeds weights and draws.

        Raises:
            ConfigError: if the policy has a memory, which Q of single observations cannot value.
        """
        if target.policy.is_recurrent:
            raise ConfigError(
                "off_policy_estimation_methods: a Q-function is of single observations, and this "
                "policy has a memory; allowed: the types 'ImportanceSampling' and "
                "'WeightedImportanceSampling'"
            )
        returns = recorded.returns_to_go[steps]
        scale = float(returns.std()) or max(1.0, abs(float(returns.mean())))
        q = QFunction(
            target,
            self.q_model_config,
            float(returns.mean()),
            scale,
            self.num_actions,
            int(rng.integers(2**63)),
        )
        if self.q_model_type == "fqe":
            fitted_q_evaluation(self, q, recorded, target, steps, rng)
        else:
            q_regression(self, q, recorded, target, steps, rng)
        return q


def fitted_q_evaluation(
    settings: ModelBasedEstimator,
    q: QFunction,
    recorded: RecordedEpisodes,
    target: TargetPolicy,
    steps: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Fit Q to `r + gamma E[Q'(s', a')]`, a' of the target policy (Le et al., 2019, algorithm 3).

    Q' is a slow copy. Where an episode was cut, what follows is valued as anywhere else.

    Args:
        settings: Of the fit.
        q: Is trained.
        recorded: What was recorded.
        target: Whose values they are.
        steps: The numbers of the steps to learn from, `[M]`.
        rng: Draws minibatches.
    """
    slow = deepcopy(q.functions).requires_grad_(False)
    optimizer = torch.optim.Adam(q.functions.parameters(), lr=settings.lr, fused=True)
    old: list[Tensor] = list(slow.parameters())
    new: list[Tensor] = list(q.functions.parameters())
    # On the scale of the network: y' = (r + gamma (offset + scale f') - offset) / scale.
    discounts = recorded.gamma * ~recorded.terminated
    constants = (recorded.rewards + (discounts - 1) * q.offset) / q.scale
    for _ in range(settings.num_updates):
        drawn = steps[rng.integers(len(steps), size=settings.minibatch_size)]
        ids = recorded.ids[drawn]
        with torch.no_grad():
            following = q.expected(target.features(ids + 1), ids + 1, slow)
            targets = _tensor(constants[drawn], following)
            targets = targets + _tensor(discounts[drawn], following) * following
        _step(settings, optimizer, q, target, ids, targets, None)
        with torch.no_grad():
            torch._foreach_lerp_(old, new, settings.tau)


def q_regression(
    settings: ModelBasedEstimator,
    q: QFunction,
    recorded: RecordedEpisodes,
    target: TargetPolicy,
    steps: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Fit Q to what came of actions, weighted (Voloshin et al., 2021, "Q-Reg").

    The return after step t is `R[t] = r[t] + gamma rho[t+1] R[t+1]`, and it counts with the product
    of the ratios up to t, at most 100. Where an episode was cut nothing follows.

    Args:
        settings: Of the fit.
        q: Is trained.
        recorded: What was recorded.
        target: Whose values they are.
        steps: The numbers of the steps to learn from, `[M]`.
        rng: Draws minibatches.
    """
    weights = ImportanceWeights.of(recorded, target.logp(recorded))
    inside = np.arange(recorded.horizon) < recorded.lengths[:, None]
    ratios, products = weights.ratios[inside], weights.products[inside]
    after = np.append(ratios[1:], 1.0)  # of the next step; behind an episode's end it meets a 0
    returns = (
        backward_sums(recorded, recorded.rewards, recorded.gamma * after) - q.offset
    ) / q.scale
    counts = np.minimum(products, _LARGEST_WEIGHT)
    optimizer = torch.optim.Adam(q.functions.parameters(), lr=settings.lr, fused=True)
    like = next(q.functions.parameters())
    for _ in range(settings.num_updates):
        drawn = steps[rng.integers(len(steps), size=settings.minibatch_size)]
        targets, of_rows = _tensor(returns[drawn], like), _tensor(counts[drawn], like)
        _step(settings, optimizer, q, target, recorded.ids[drawn], targets, of_rows)


def _step(
    settings: ModelBasedEstimator,
    optimizer: torch.optim.Optimizer,
    q: QFunction,
    target: TargetPolicy,
    ids: np.ndarray,
    targets: Tensor,
    weights: Tensor | None,
) -> None:
    """Take one gradient step on the squared error of rows."""
    values = q.of_actions(target.features(ids), target.recorded_actions(ids))
    errors = (values - targets).square()
    loss = (errors if weights is None else weights * errors).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(q.functions.parameters(), settings.grad_clip)
    step(optimizer)


def _tensor(column: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(column).to(like.device, like.dtype)
