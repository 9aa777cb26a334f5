"""Likelihoods of recorded actions on a bound, and of policies whose log sigma is out of bounds."""

from __future__ import annotations

import math

import pytest
import torch

from trainables.core.distributions.gaussian import LOG_STD_MIN, SquashedGaussian
from trainables.core.learning.recorded_actions import log_likelihood


def test_actions_on_a_bound_have_a_likelihood() -> None:
    """They count as if they were 0.999 of the way there; inside of that they are what they are."""
    squashed, inputs = SquashedGaussian((1,)), torch.tensor([[0.5, 0.1]])
    on_bound = torch.tensor([[math.atanh(1 - 2**-23)]])
    near = torch.tensor([[math.atanh(0.999)]])
    logp, _ = log_likelihood(inputs, on_bound, squashed)
    torch.testing.assert_close(logp, squashed.logp(inputs, near))
    inside = torch.tensor([[1.5]])
    logp, _ = log_likelihood(inputs, inside, squashed)
    torch.testing.assert_close(logp, squashed.logp(inputs, inside))


def test_log_sigma_is_led_back_inside_its_bounds() -> None:
    squashed = SquashedGaussian((1,))
    inputs = torch.tensor([[0.0, LOG_STD_MIN - 3.0], [0.0, 0.0]], requires_grad=True)
    logp, excess = log_likelihood(inputs, torch.zeros(2, 1), squashed)
    [gradient] = torch.autograd.grad(excess, inputs, retain_graph=True)
    assert float(excess) == pytest.approx(1.5)  # 3 of one row of two
    assert gradient.tolist() == [[0, -0.5], [0, 0]]  # a step down the gradient raises it
    assert logp.isfinite().all()
