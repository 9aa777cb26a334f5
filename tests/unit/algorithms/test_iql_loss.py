"""The losses of IQL against slow loops, closed forms, and which parameters each of them moves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions as td
from policy_q_modules import with_target
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.distributions.gaussian import LOG_STD_MAX, LOG_STD_MIN
from trainables.core.networks.implicit_q import ImplicitQ
from trainables.core.networks.soft_actor_critic import QFunctions
from trainables.iql import (
    MAX_WEIGHT,
    IQLCoefficients,
    advantage_weights,
    expectile_losses,
    iql_loss,
)

ROWS = 30
COEFFICIENTS = IQLCoefficients(expectile=0.8, beta=2.0)
both = pytest.mark.parametrize("discrete", [True, False])


def random_batch(discrete: bool) -> Batch:
    rng = np.random.default_rng(0)
    actions = rng.integers(4, size=ROWS) if discrete else rng.normal(size=(ROWS, 2))
    columns: dict[str, Any] = {
        "features": rng.normal(size=(ROWS, 3)),
        "next_features": rng.normal(size=(ROWS, 3)),
        "rewards": rng.normal(size=ROWS),
        "discounts": rng.choice([0, 0.9, 0.9**3], ROWS),
        "weights": rng.uniform(0.1, 1, ROWS),
        "actions": actions,
    }
    return {name: torch.tensor(column) for name, column in columns.items()}


def q_of(critic: QFunctions, s: Tensor, action: Tensor) -> list[Tensor]:
    if action.dim():
        return [function(torch.cat([s, action.tanh()])).squeeze() for function in critic.functions]
    return [function(s)[action] for function in critic.functions]


def slow_losses(module: ImplicitQ, target: QFunctions, batch: Batch, row: int) -> dict[str, Tensor]:
    """The three losses of one row, by torch.distributions."""
    s, s2, action = batch["features"][row], batch["next_features"][row], batch["actions"][row]
    v = module.state_value(s).squeeze()
    best = min(float(q) for q in q_of(target, s, action))
    side = COEFFICIENTS.expectile if best >= float(v) else 1 - COEFFICIENTS.expectile
    y = float(batch["rewards"][row])
    y += float(batch["discounts"][row]) * float(module.state_value(s2))
    errors = [q - y for q in q_of(module.critic, s, action)]
    weight = min(math.exp(COEFFICIENTS.beta * (best - float(v))), 100.0)
    outside = torch.zeros((), dtype=torch.float64)
    if action.dim():
        mean, log_std = module.actor(s).chunk(2)
        gaussian = td.Normal(mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp())
        stretch = td.TanhTransform().log_abs_det_jacobian(action, action.tanh())
        logp = (gaussian.log_prob(action) - stretch).sum()
        outside = (log_std - log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)).abs().sum()
    else:
        logp = td.Categorical(logits=module.actor(s)).log_prob(action)
    importance = float(batch["weights"][row])
    return {
        "value": importance * side * (best - v) ** 2,
        "critic": importance * sum(e**2 for e in errors),
        "policy": -importance * weight * logp,
        "actor": outside - importance * weight * logp,
        "weight": torch.tensor(weight, dtype=torch.float64),
        "priorities": torch.stack(errors).detach().abs().mean(),
    }


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("twin_q", [True, False])
@both
def test_one_backward_pass_equals_three_separate_ones(discrete: bool, twin_q: bool) -> None:
    """Each group's gradient is that of its own slow loss, so no other loss reaches it."""
    module, target, distribution = with_target(ImplicitQ, discrete, twin_q=twin_q)
    batch = random_batch(discrete)
    loss, metrics = iql_loss(module, batch, target, distribution, COEFFICIENTS)
    rows = [slow_losses(module, target, batch, row) for row in range(ROWS)]
    means = {name: torch.stack([row[name] for row in rows]).mean() for name in rows[0]}
    for name, metric in (("critic", "qf_loss"), ("policy", "policy_loss"), ("value", "vf_loss")):
        torch.testing.assert_close(metrics[metric], means[name].detach())
    torch.testing.assert_close(metrics["mean_weight"], means["weight"])
    torch.testing.assert_close(loss, means["critic"] + means["actor"] + means["value"])
    priorities = torch.stack([row["priorities"] for row in rows])
    torch.testing.assert_close(metrics["priorities"], priorities)

    loss.backward()
    groups = {"critic": module.critic, "actor": module.actor, "value": module.state_value}
    for name, network in groups.items():
        parameters = list(network.parameters())
        expected = torch.autograd.grad(means[name], parameters)
        for parameter, gradient in zip(parameters, expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
            assert gradient.abs().max() > 0
    assert all(parameter.grad is None for parameter in target.parameters())


def test_the_loss_is_least_at_the_expectile() -> None:
    """Of a sample of 0 and 1 in equal parts the tau-expectile is tau; at 0.5 it is any mean."""
    sample = torch.tensor([0.0, 1.0], dtype=torch.float64)
    candidates = torch.linspace(0, 1, 101, dtype=torch.float64)
    for tau in (0.1, 0.5, 0.7, 0.9):
        losses = torch.stack([expectile_losses(sample - v, tau).mean() for v in candidates])
        assert float(candidates[losses.argmin()]) == pytest.approx(tau)
    skewed = torch.tensor([0.0, 0.0, 0.0, 8.0], dtype=torch.float64)
    v = skewed.mean().requires_grad_(True)
    [gradient] = torch.autograd.grad(expectile_losses(skewed - v, 0.5).mean(), v)
    assert float(gradient) == 0
    tau = 0.75  # tau (8 - v) = (1 - tau) 3 v, so v = 4
    v = torch.tensor(4.0, dtype=torch.float64, requires_grad=True)
    [gradient] = torch.autograd.grad(expectile_losses(skewed - v, tau).mean(), v)
    assert float(gradient) == pytest.approx(0, abs=1e-12)


def test_weights_are_capped() -> None:
    advantages = torch.tensor([-1e4, -1.0, 0.0, 1.0, 2.0, 3.0, 1e4])
    weights = advantage_weights(advantages, beta=2.0)
    expected = [min(math.exp(min(2 * a, 700)), 100) for a in advantages.tolist()]
    assert weights.tolist() == pytest.approx(expected)
    assert weights.max() == MAX_WEIGHT and weights.isfinite().all()


def test_capped_rows_are_counted() -> None:
    module, target, distribution = with_target(ImplicitQ, discrete=True)
    batch = random_batch(discrete=True)
    shares = []
    for beta in (1e-6, 1e6):
        of_beta = COEFFICIENTS._replace(beta=beta)
        _, metrics = iql_loss(module, batch, target, distribution, of_beta)
        shares.append(float(metrics["capped_weights"]))
    better = [
        min(map(float, q_of(target, s, a))) > float(module.state_value(s))
        for s, a in zip(batch["features"], batch["actions"], strict=True)
    ]
    assert shares == [0, pytest.approx(sum(better) / ROWS)] and 0 < sum(better) < ROWS


def test_a_terminal_state_is_worth_nothing() -> None:
    """With a discount of 0 what follows does not count, and it does with any other."""
    module, target, distribution = with_target(ImplicitQ, discrete=False)
    batch = random_batch(discrete=False)
    other = {**batch, "next_features": batch["next_features"] + 1}
    losses = [
        [
            float(iql_loss(module, rows, target, distribution, COEFFICIENTS)[1]["qf_loss"])
            for rows in ({**batch, "discounts": d}, {**other, "discounts": d})
        ]
        for d in (torch.zeros(ROWS).double(), torch.full((ROWS,), 0.9).double())
    ]
    assert losses[0][0] == losses[0][1] and losses[1][0] != losses[1][1]
