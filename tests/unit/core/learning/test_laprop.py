"""LaProp and adaptive clipping against slow loops over single numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from trainables.core.config.model import OptimizerConfig
from trainables.core.learning.flat_parameters import FlatParameters
from trainables.core.learning.laprop import LaProp
from trainables.core.learning.learner import Learner
from trainables.core.learning.stepping import clip_adaptively


def test_each_gradient_is_divided_before_it_is_averaged() -> None:
    generator = torch.Generator().manual_seed(0)
    parameter = nn.Parameter(torch.randn(3, generator=generator))
    optimizer = LaProp([parameter], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
    values = parameter.tolist()
    means, squares = [0.0] * 3, [0.0] * 3
    for step in range(1, 8):
        gradient = torch.randn(3, generator=generator) * 10 ** (step % 3)
        parameter.grad = gradient
        optimizer.step()
        for i, g in enumerate(gradient.tolist()):
            squares[i] = 0.99 * squares[i] + 0.01 * g * g
            scaled = g / (math.sqrt(squares[i] / (1 - 0.99**step)) + 1e-8)
            means[i] = 0.9 * means[i] + 0.1 * scaled
            values[i] = values[i] * (1 - 0.1 * 0.01) - 0.1 * means[i] / (1 - 0.9**step)
        assert parameter.tolist() == pytest.approx(values, rel=1e-4)


def test_parameters_without_a_gradient_stay() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    LaProp([parameter]).step()
    assert not parameter.any()


def test_each_tensor_is_clipped_by_its_own_norm() -> None:
    generator = torch.Generator().manual_seed(1)
    tensors = [nn.Parameter(scale * torch.randn(4, generator=generator)) for scale in (0.0, 1, 50)]
    flat = FlatParameters(tensors)
    flat.gradient.copy_(torch.randn(12, generator=generator))
    before = [p.grad.clone() for p in flat.parameters if p.grad is not None]
    clip_adaptively(flat, 0.3)
    for parameter, gradient in zip(flat.parameters, before, strict=True):
        norm = math.sqrt(sum(g * g for g in gradient.tolist()))
        size = math.sqrt(sum(p * p for p in parameter.tolist()))
        factor = 1 / max(1.0, norm / (0.3 * max(size, 1e-3)))
        torch.testing.assert_close(parameter.grad, gradient * factor)


def test_no_gradient_is_left_as_it_is() -> None:
    flat = FlatParameters([nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(2))])
    clip_adaptively(flat, 0.3)
    assert not flat.gradient.any()


def test_a_learner_steps_by_both() -> None:
    """As `optimizer` and `grad_clip_by` say, whatever the algorithm."""
    module = nn.Linear(3, 2)
    expected = nn.Linear(3, 2)
    expected.load_state_dict(module.state_dict())
    learner = Learner(module, OptimizerConfig.of({"type": "laprop", "eps": 1e-8}), 0.3, "adaptive")
    optimizer = LaProp(expected.parameters(), lr=0.01, eps=1e-8)
    learner.set_lr(0.01)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        learner.update_step({"x": x}, lambda m, b: (m(b["x"]).square().mean(), {}))
        optimizer.zero_grad()
        expected(x).square().mean().backward()
        for parameter in expected.parameters():
            assert parameter.grad is not None
            bound = 0.3 * parameter.detach().norm().clamp_min(1e-3)
            parameter.grad.mul_((bound / parameter.grad.norm()).clamp_max(1.0))
        optimizer.step()
    for mine, theirs in zip(module.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
