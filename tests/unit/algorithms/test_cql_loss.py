"""The losses of CQL against slow loops, closed forms, and which parameters each of them moves."""

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
from trainables.core.distributions.base import ILLEGAL
from trainables.core.distributions.gaussian import LOG_STD_MAX, LOG_STD_MIN, SquashedGaussian
from trainables.core.learning.soft_maximum import log_integral, log_sum, proposals
from trainables.core.networks.soft_actor_critic import QFunctions, SoftActorCritic
from trainables.cql import (
    MAX_MULTIPLIER,
    CQLOptions,
    conservative_term,
    cql_loss,
    discrete_cql_loss,
)
from trainables.sac import discrete_sac_loss, sac_loss

ROWS, COUNT = 12, 3
TARGET_ENTROPY = -0.7
OPTIONS = CQLOptions(temperature=0.7, weight=2.5, threshold=0.4, deterministic_backup=False)


def random_batch(discrete: bool) -> Batch:
    rng = np.random.default_rng(0)
    before = rng.normal(size=(ROWS, 2))
    columns: dict[str, Any] = {
        "features": rng.normal(size=(ROWS, 3)),
        "next_features": rng.normal(size=(ROWS, 3)),
        "rewards": rng.normal(size=ROWS),
        "discounts": rng.choice([0, 0.9, 0.9**3], ROWS),
        "weights": rng.uniform(0.1, 1, ROWS),
        "actions": rng.integers(4, size=ROWS) if discrete else np.tanh(before),
    }
    if not discrete:
        columns |= {
            "noise": rng.normal(size=(ROWS, 2)),
            "next_noise": rng.normal(size=(ROWS, 2)),
            "before_tanh": before,
            "uniform": rng.uniform(-1, 1, (ROWS, COUNT, 2)),
            "proposal_noise": rng.normal(size=(ROWS, 2 * COUNT, 2)),
        }
    return {name: torch.tensor(column) for name, column in columns.items()}


def policy_at(module: SoftActorCritic, s: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_std = module.actor(s).chunk(2)
    return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()


def log_density(mean: Tensor, sigma: Tensor, u: Tensor) -> Tensor:
    stretch = td.TanhTransform().log_abs_det_jacobian(u, u.tanh())
    return (td.Normal(mean, sigma).log_prob(u) - stretch).sum()


def slow_losses(
    module: SoftActorCritic, target: QFunctions, batch: Batch, row: int, clones: bool
) -> dict[str, Tensor]:
    """The losses of one row with continuous actions, an action at a time."""
    alpha = module.log_alpha.exp().item()
    s, s2, action = batch["features"][row], batch["next_features"][row], batch["actions"][row]
    here, there = policy_at(module, s), policy_at(module, s2)
    u = there[0] + there[1] * batch["next_noise"][row]
    next_q = min(float(f(torch.cat([s2, u.tanh()]))) for f in target.functions)
    y = float(batch["rewards"][row])
    y += float(batch["discounts"][row]) * (next_q - alpha * float(log_density(*there, u)))

    tried = [(a, -2 * math.log(2)) for a in batch["uniform"][row]]
    for number, noise in enumerate(batch["proposal_noise"][row]):
        mean, sigma = here if number < COUNT else there
        u = (mean + sigma * noise).detach()
        tried.append((u.tanh(), float(log_density(mean, sigma, u))))
    td_loss, term, gaps = torch.zeros(()).double(), torch.zeros(()).double(), []
    for function in module.critic.functions:
        q = function(torch.cat([s, action])).squeeze()
        estimates = [
            (function(torch.cat([s, a])).squeeze() / OPTIONS.temperature).exp() / math.exp(density)
            for a, density in tried
        ]
        gap = OPTIONS.temperature * torch.stack(estimates).mean().log() - q
        td_loss = td_loss + 0.5 * batch["weights"][row] * (q - y) ** 2
        excess = OPTIONS.weight * gap - OPTIONS.threshold
        term = term + 0.5 * batch["weights"][row] * excess
        gaps.append(gap)

    u = here[0] + here[1] * batch["noise"][row]
    logp = log_density(*here, u)
    outside = torch.zeros((), dtype=torch.float64)
    if clones:
        worth = log_density(*here, batch["before_tanh"][row])
        log_std = module.actor(s).chunk(2)[1]
        outside = (log_std - log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)).abs().sum()
    else:
        worth = torch.stack([f(torch.cat([s, u.tanh()])) for f in module.critic.functions]).min()
    return {
        "critic": td_loss + term,
        "term": term,
        "gap": torch.stack(gaps).mean(),
        "policy": alpha * logp - worth,
        "actor": alpha * logp - worth + outside,
        "alpha": -module.log_alpha.squeeze() * (float(logp) + TARGET_ENTROPY),
    }


def slow_discrete_losses(
    module: SoftActorCritic, target: QFunctions, batch: Batch, row: int, clones: bool
) -> dict[str, Tensor]:
    """The same with discrete actions: sums over them, one by one."""
    alpha = module.log_alpha.exp().item()
    s, s2, action = batch["features"][row], batch["next_features"][row], batch["actions"][row]
    there, here = td.Categorical(logits=module.actor(s2)), td.Categorical(logits=module.actor(s))
    next_q = torch.stack([f(s2) for f in target.functions]).min(0).values
    value = sum(float(there.probs[a] * (next_q[a] - alpha * there.logits[a])) for a in range(4))
    y = float(batch["rewards"][row]) + float(batch["discounts"][row]) * value
    td_loss, term, gaps = torch.zeros(()).double(), torch.zeros(()).double(), []
    for function in module.critic.functions:
        q = function(s)
        total = sum((q[a] / OPTIONS.temperature).exp() for a in range(4))
        gap = OPTIONS.temperature * torch.as_tensor(total).log() - q[action]
        td_loss = td_loss + 0.5 * batch["weights"][row] * (q[action] - y) ** 2
        excess = OPTIONS.weight * gap - OPTIONS.threshold
        term = term + 0.5 * batch["weights"][row] * excess
        gaps.append(gap)
    least = torch.stack([f(s) for f in module.critic.functions]).min(0).values.detach()
    if clones:
        actor = -(alpha * here.entropy() + here.log_prob(action))
    else:
        actor = (here.probs * (alpha * here.logits - least)).sum()
    return {
        "critic": td_loss + term,
        "term": term,
        "gap": torch.stack(gaps).mean(),
        "policy": actor,
        "actor": actor,
        "alpha": module.log_alpha.squeeze() * (float(here.entropy()) - TARGET_ENTROPY),
    }


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("clones", [False, True])
def test_the_continuous_losses_are_those_of_a_loop(clones: bool) -> None:
    module, target, distribution = with_target(SoftActorCritic, False, initial_alpha=0.3)
    batch = random_batch(False)
    arguments = (module, batch, target, distribution, TARGET_ENTROPY, OPTIONS)
    loss, metrics = cql_loss(*arguments, clones=clones)
    rows = [slow_losses(module, target, batch, row, clones) for row in range(ROWS)]
    check(module, target, loss, metrics, rows)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("clones", [False, True])
def test_the_discrete_losses_are_those_of_a_loop(clones: bool) -> None:
    module, target, _ = with_target(SoftActorCritic, True, initial_alpha=0.3)
    batch = random_batch(True)
    loss, metrics = discrete_cql_loss(module, batch, target, TARGET_ENTROPY, OPTIONS, clones=clones)
    rows = [slow_discrete_losses(module, target, batch, row, clones) for row in range(ROWS)]
    check(module, target, loss, metrics, rows)


def check(
    module: SoftActorCritic,
    target: QFunctions,
    loss: Tensor,
    metrics: dict[str, Any],
    rows: list[dict[str, Tensor]],
) -> None:
    """Values, and that each group's gradient is that of its own slow loss."""
    means = {name: torch.stack([row[name] for row in rows]).mean() for name in rows[0]}
    for name, metric in (("policy", "policy_loss"), ("alpha", "alpha_loss"), ("term", "cql_loss")):
        torch.testing.assert_close(metrics[metric], means[name].detach())
    torch.testing.assert_close(metrics["cql_gap"], means["gap"].detach())
    torch.testing.assert_close(loss, means["critic"] + means["actor"] + means["alpha"])
    loss.backward()
    groups = {
        "critic": list(module.critic.parameters()),
        "actor": list(module.actor.parameters()),
        "alpha": [module.log_alpha],
    }
    for name, parameters in groups.items():
        own = torch.autograd.grad(means[name], parameters, retain_graph=True)
        for parameter, gradient in zip(parameters, own, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
    assert all(parameter.grad is None for parameter in target.parameters())


def test_cloning_follows_no_action_to_a_bound() -> None:
    """Recorded actions on a bound count as 0.999 of the way there, as IQL's; Q sees them all."""
    module, target, distribution = with_target(SoftActorCritic, discrete=False, initial_alpha=0.3)
    batch, found = random_batch(False), []
    for before in (8.0, math.atanh(0.999), 1.0):
        batch["before_tanh"][0, 0] = before
        arguments = (module, batch, target, distribution, TARGET_ENTROPY, OPTIONS)
        loss, metrics = cql_loss(*arguments, clones=True)
        gradients = torch.autograd.grad(loss, list(module.actor.parameters()))
        found.append((metrics["policy_loss"], torch.cat([part.flatten() for part in gradients])))
    on_bound, near, inside = found
    assert torch.equal(on_bound[0], near[0]) and torch.equal(on_bound[1], near[1])
    assert not torch.isclose(inside[0], near[0]) and not torch.allclose(inside[1], near[1])


@pytest.mark.parametrize("clones", [False, True])
def test_cloning_leads_log_sigma_back_inside_its_bounds(clones: bool) -> None:
    module, target, distribution = with_target(SoftActorCritic, discrete=False, initial_alpha=0.3)
    bias: Any = module.actor[-1].bias
    with torch.no_grad():
        bias[2] = LOG_STD_MIN - 20
    arguments = (module, random_batch(False), target, distribution, TARGET_ENTROPY, OPTIONS)
    loss, _ = cql_loss(*arguments, clones=clones)
    loss.backward()
    assert bias.grad[2] == (-1 if clones else 0)  # a step down the gradient raises it


@pytest.mark.parametrize("discrete", [False, True])
def test_without_a_weight_it_is_sac(discrete: bool) -> None:
    module, target, distribution = with_target(SoftActorCritic, discrete, initial_alpha=0.3)
    batch, options = random_batch(discrete), CQLOptions(1.0, 0.0, 0.0, deterministic_backup=False)
    if discrete:
        loss, _ = discrete_cql_loss(module, batch, target, TARGET_ENTROPY, options)
        of_sac, _ = discrete_sac_loss(module, batch, target, TARGET_ENTROPY)
    else:
        loss, _ = cql_loss(module, batch, target, distribution, TARGET_ENTROPY, options)
        of_sac, _ = sac_loss(module, batch, target, distribution, TARGET_ENTROPY)
    torch.testing.assert_close(loss, of_sac)
    without = options._replace(deterministic_backup=True)
    if discrete:
        other, _ = discrete_cql_loss(module, batch, target, TARGET_ENTROPY, without)
    else:
        other, _ = cql_loss(module, batch, target, distribution, TARGET_ENTROPY, without)
    assert not torch.isclose(other, loss)


# ------------------------------------------------------------------ the soft maximum


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_integral_of_a_linear_q_is_its_closed_form(temperature: float) -> None:
    """Q(a) = c a in one dimension: the integral of exp(c a / T) is 2 T / c sinh(c / T)."""
    slope, count = 1.7, 400_000
    uniform = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    actions = 2 * uniform - 1
    densities = torch.full((1, count), -math.log(2), dtype=torch.float64)
    estimate = log_integral(slope * actions[None], densities, temperature)
    share = slope / temperature
    exact = temperature * math.log(2 / share * math.sinh(share))
    assert estimate.item() == pytest.approx(exact, abs=0.005)


def test_the_integral_of_a_constant_q_is_exact_with_any_actions() -> None:
    """(-1, 1)^d has the volume 2^d, and how many actions there are does not matter."""
    for count in (1, 7):
        q = torch.full((1, count), 5.0, dtype=torch.float64)
        found = log_integral(q, torch.full((1, count), -3 * math.log(2)).double(), 2.0)
        assert found.item() == pytest.approx(5.0 + 2.0 * 3 * math.log(2))


def test_proposals_have_the_densities_that_they_are_drawn_from() -> None:
    """The mean of 1 / density is the volume of (-1, 1)^d, whatever the policies do."""
    count, size = 60_000, 2
    distribution = SquashedGaussian((size,))
    generator = torch.Generator().manual_seed(0)
    inputs = torch.tensor([[0.2, -0.3, -0.2, 0.1]], dtype=torch.float64)
    uniform = torch.rand(1, count, size, dtype=torch.float64, generator=generator) * 2 - 1
    noise = torch.randn(1, 2 * count, size, dtype=torch.float64, generator=generator)
    actions, densities = proposals(distribution, inputs, inputs + 0.1, uniform, noise)
    assert actions.shape == (1, 3 * count, size) and actions.abs().max() <= 1
    assert torch.equal(densities[0, :count].exp(), torch.full((count,), 0.25).double())
    # Of few actions that are nearly on a bound the density is very small: a median of means.
    means = (-densities[0, count:]).exp().reshape(40, -1).mean(1)
    assert means.median().item() == pytest.approx(4.0, rel=0.1)


def test_the_sum_leaves_out_what_is_not_allowed() -> None:
    q = torch.tensor([[1.0, 2.0, -torch.inf]])
    assert log_sum(q, 1.0).item() == pytest.approx(math.log(math.e + math.e**2))
    assert log_sum(q, 1e-3).item() == pytest.approx(2.0, abs=1e-3)


def test_a_masked_action_is_not_pressed_down() -> None:
    module, target, _ = with_target(SoftActorCritic, True, initial_alpha=0.3)
    batch = random_batch(True)
    batch["actions"] = batch["actions"] % 3
    dist_inputs = module.dist_inputs

    def masked(features: Any) -> Tensor:
        return dist_inputs(features).index_fill(-1, torch.tensor([3]), ILLEGAL)

    module.dist_inputs = masked  # type: ignore[method-assign]
    _, metrics = discrete_cql_loss(module, batch, target, TARGET_ENTROPY, OPTIONS)
    all_q = module.critic(batch["features"])
    chosen = all_q.gather(-1, batch["actions"].view(1, -1, 1).expand(2, -1, 1)).squeeze(-1)
    temperature = OPTIONS.temperature
    of_three = temperature * (all_q[..., :3] / temperature).exp().sum(-1).log()
    torch.testing.assert_close(metrics["cql_gap"], (of_three - chosen).mean().detach())


# ------------------------------------------------------------------ Lagrange


@pytest.mark.parametrize(("gap", "rises"), [(3.0, True), (-1.0, False)])
def test_the_multiplier_rises_while_the_term_is_above_its_threshold(
    gap: float, rises: bool
) -> None:
    """Its gradient is -(weight x gap - threshold), weighted; the critics' is times alpha'."""
    log_multiplier = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    gaps = torch.full((2, 4), gap, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([0.5, 1.0, 1.0, 0.5], dtype=torch.float64)
    loss, metrics = conservative_term(gaps, weights, OPTIONS, log_multiplier)
    loss.backward()
    excess = 0.75 * (OPTIONS.weight * gap - OPTIONS.threshold)
    assert log_multiplier.grad is not None and gaps.grad is not None
    assert log_multiplier.grad.item() == pytest.approx(-excess)
    assert (log_multiplier.grad.item() < 0) == rises
    alpha = math.exp(0.5)
    expected = 0.5 * alpha * OPTIONS.weight * weights / 4
    torch.testing.assert_close(gaps.grad, expected.expand(2, -1))
    assert metrics["alpha_prime"].item() == pytest.approx(alpha)
    assert metrics["cql_loss"].item() == pytest.approx(alpha * excess)
    assert metrics["alpha_prime_loss"].item() == pytest.approx(-0.5 * excess)


def test_the_multiplier_is_bounded() -> None:
    gaps, ones = torch.ones(2, 3), torch.ones(3)
    _, metrics = conservative_term(gaps, ones, OPTIONS, torch.tensor([100.0]))
    assert metrics["alpha_prime"].item() == MAX_MULTIPLIER
