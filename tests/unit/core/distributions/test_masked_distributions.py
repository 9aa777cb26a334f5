"""Masked actions: probability 0, never drawn, no gradient, nothing that is not finite."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import distributions as td

from trainables.core.distributions.base import ILLEGAL, Distribution, mask_logits
from trainables.core.distributions.categorical import Categorical, MultiBernoulli, MultiCategorical
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy

DRAWS = 100_000


def epsilon_greedy(epsilon: float, temperature: float = 0.0) -> EpsilonGreedy:
    distribution = EpsilonGreedy(4, temperature)
    distribution.epsilon = epsilon
    return distribution


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


# What each allows, and the share of each encoded action under uniform draws of what is allowed.
ALLOWED: list[tuple[Distribution, list[int], list[float]]] = [
    (Categorical(4), [1, 0, 1, 0], [0.5, 0, 0.5, 0]),
    (epsilon_greedy(1.0), [1, 0, 1, 0], [0.5, 0, 0.5, 0]),
    (epsilon_greedy(0.5, 0.7), [0, 1, 1, 1], [0, 1 / 3, 1 / 3, 1 / 3]),
    (epsilon_greedy(0.5, 1.5), [0, 0, 0, 1], [0, 0, 0, 1]),
    (MultiCategorical([2, 4, 3]), [0, 1, 1, 0, 0, 1, 1, 1, 0], [0, 1, 0.5, 0, 0, 0.5, 0.5, 0.5, 0]),
    (MultiCategorical([3, 3], (2, 1)), [0, 1, 1, 1, 0, 0], [0, 0.5, 0.5, 1, 0, 0]),
    (MultiBernoulli((2, 2)), [1, 0, 0, 1, 1, 1, 1, 0], [0, 1, 0.5, 0]),
]


@pytest.mark.parametrize(("distribution", "allowed", "shares"), ALLOWED)
@pytest.mark.parametrize("tempting", [True, False])
def test_what_is_masked_is_never_drawn(
    distribution: Distribution, allowed: list[int], shares: list[float], tempting: bool
) -> None:
    mask = torch.tensor(allowed, dtype=torch.bool)
    logits = torch.zeros(DRAWS, distribution.num_inputs)
    if tempting and distribution.num_inputs == len(allowed):  # the worst are the legal ones
        logits[:, ~mask] = 50.0
    inputs = distribution.mask(logits, mask.expand(DRAWS, -1))
    for draw in (distribution.sample, distribution.uniform):
        actions = draw(inputs, generator())
        assert actions.shape == (DRAWS, *distribution.action_shape)
        frequencies = distribution.encode(actions).mean(0)
        # Five standard errors of a share of 0.5; a certain one is exact.
        expected = torch.tensor(shares)
        is_greedy = isinstance(distribution, EpsilonGreedy) and draw == distribution.sample
        if not is_greedy:
            assert (frequencies - expected).abs().max() < 5 * (0.25 / DRAWS) ** 0.5
        assert (frequencies[expected == 0] == 0).all()
        assert (frequencies[expected == 1] == 1).all()
    assert (distribution.encode(distribution.mode(inputs))[:, expected == 0] == 0).all()


@pytest.mark.parametrize(("distribution", "allowed", "shares"), ALLOWED)
def test_everything_is_finite_and_masked_inputs_get_no_gradient(
    distribution: Distribution, allowed: list[int], shares: list[float]
) -> None:
    mask = torch.tensor(allowed, dtype=torch.bool).expand(64, -1)
    logits = torch.randn(64, distribution.num_inputs, generator=generator(), requires_grad=True)
    other = torch.randn(64, distribution.num_inputs, generator=generator()) + 1
    inputs = distribution.mask(logits, mask)
    actions = distribution.uniform(inputs.detach())
    unlikely = distribution.uniform(torch.zeros_like(inputs))  # masked ones among them
    logp, entropy = distribution.logp_and_entropy(inputs, actions)
    outputs = {
        "logp": logp,
        "entropy": entropy,
        "kl": distribution.kl(inputs, distribution.mask(other, mask)),
        "kl to an unmasked one": distribution.kl(inputs, other),
        "kl of an unmasked one": distribution.kl(other, inputs),
        "logp of a masked action": distribution.logp(inputs, unlikely),
    }
    for name, output in outputs.items():
        assert output.isfinite().all(), name
        if isinstance(distribution, EpsilonGreedy) or not output.requires_grad:
            continue  # nothing learns through exploration
        (gradient,) = torch.autograd.grad(output.sum(), logits, retain_graph=True)
        assert gradient.isfinite().all(), name
        if distribution.num_inputs == len(allowed):
            assert (gradient[~mask] == 0).all(), name
    assert (outputs["kl"] > -1e-6).all()


def test_epsilon_is_shared_among_the_legal_actions() -> None:
    distribution, values = epsilon_greedy(0.3), torch.tensor([ILLEGAL, 1.0, 0.0, 0.5])
    expected = torch.tensor([0.0, 0.1 + 0.7, 0.1, 0.1])
    torch.testing.assert_close(distribution.probabilities(values), expected)
    draws = distribution.sample(values.expand(DRAWS, 4), generator())
    shares = draws.bincount(minlength=4) / DRAWS
    assert shares[0] == 0 and (shares - expected).abs().max() < 5 * (0.25 / DRAWS) ** 0.5


def test_entropy_and_divergence_are_those_of_the_legal_actions() -> None:
    mask = torch.tensor([True, False, True, True])
    p, q = torch.randn(2, 16, 4, generator=generator())
    legal_p, legal_q = (td.Categorical(logits=x[:, mask]) for x in (p, q))
    p, q = mask_logits(p, mask), mask_logits(q, mask)
    mine = Categorical(4)
    torch.testing.assert_close(mine.entropy(p), legal_p.entropy())
    torch.testing.assert_close(mine.kl(p, q), td.kl_divergence(legal_p, legal_q))
    torch.testing.assert_close(mine.logp(p, torch.full((16,), 2)), legal_p.logits[:, 1])
    assert (mine.logp(p, torch.full((16,), 1)) == ILLEGAL).all()


def test_the_policy_gradient_of_a_masked_bandit_by_hand() -> None:
    """Three arms, the second masked. pi = softmax(0, ln 3) = (1/4, 3/4) over the legal ones.

    J = sum_a pi(a) r(a) with r = (1, 100, 2): J = 1/4 + 6/4 = 7/4, and
    dJ/dl_a = pi(a) (r(a) - J) = (1/4 * -3/4, 0, 3/4 * 1/4) = (-3/16, 0, 3/16).
    """
    logits = torch.tensor([0.0, 5.0, float(torch.tensor(3.0).log())], requires_grad=True)
    inputs = mask_logits(logits, torch.tensor([True, False, True]))
    rewards = torch.tensor([1.0, 100.0, 2.0])
    actions = torch.arange(3)
    logp = Categorical(3).logp(inputs.expand(3, 3), actions)
    expected_return = (logp.exp() * rewards).sum()
    (gradient,) = torch.autograd.grad(expected_return, logits, retain_graph=True)
    assert expected_return.item() == pytest.approx(7 / 4)
    assert gradient.tolist() == pytest.approx([-3 / 16, 0.0, 3 / 16])
    # The estimator: E[r dlog pi] over a ~ pi is the same, and never asks for the masked arm.
    probabilities = inputs.detach().softmax(-1)
    (estimate,) = torch.autograd.grad((probabilities * rewards * logp).sum(), logits)
    assert estimate.tolist() == pytest.approx([-3 / 16, 0.0, 3 / 16])


def test_a_row_that_allows_nothing_counts_as_one_that_allows_everything() -> None:
    nothing: Any = torch.zeros(2, 4, dtype=torch.bool)
    some = torch.tensor([[True, False, False, True]] * 2)
    logits = torch.randn(2, 4)
    assert torch.equal(mask_logits(logits, nothing), logits)
    two = MultiCategorical([3, 2])
    mask = torch.tensor([[False, False, False, True, False]])
    masked = two.mask(torch.ones(1, 5), mask)
    assert masked.tolist() == [[1, 1, 1, 1, ILLEGAL]]
    assert Categorical(4).allows_something(torch.stack([nothing, some])).tolist() == [
        [False, False],
        [True, True],
    ]
    assert two.allows_something(mask).tolist() == [False]
    assert two.allows_something(torch.tensor([[False, True, False, True, False]])).tolist() == [
        True
    ]
    bits = MultiBernoulli((2,))
    assert bits.allows_something(torch.tensor([[1, 0, 0, 0], [1, 0, 0, 1]]).bool()).tolist() == [
        False,
        True,
    ]
