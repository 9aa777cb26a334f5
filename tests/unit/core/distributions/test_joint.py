"""The distribution over nested actions, worked by hand."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
import torch

from trainables.core.distributions.base import ILLEGAL
from trainables.core.distributions.build import distribution_for
from trainables.core.distributions.categorical import Categorical, MultiBernoulli, MultiCategorical
from trainables.core.distributions.gaussian import DiagGaussian, SquashedGaussian
from trainables.core.distributions.joint import Joint
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy

Box, Dict, Tuple = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Tuple
Discrete, MultiBinary = gym.spaces.Discrete, gym.spaces.MultiBinary

# A choice of two with probabilities 1/4 and 3/4, a bit that is 1 with 3/4, and N(1, 2^2).
MIXED = Joint({"a": Categorical(2), "b": MultiBernoulli((1,)), "c": DiagGaussian((1,))})
P = torch.tensor([[0.0, math.log(3), math.log(3), 1.0, math.log(2)]])
# Probabilities 1/2, a bit that is 1 with 1/2, and N(0, 1).
Q = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0]])
COIN = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))  # entropy of both discrete parts


def test_log_probability_by_hand() -> None:
    actions = torch.tensor([[1.0, 0.0, 3.0]])  # one standard deviation above the mean
    density = math.exp(-0.5) / (2 * math.sqrt(2 * math.pi))
    expected = math.log(0.75) + math.log(0.25) + math.log(density)
    assert MIXED.logp(P, actions).item() == pytest.approx(expected, rel=1e-6)
    logp, entropy = MIXED.logp_and_entropy(P, actions)
    assert logp.item() == pytest.approx(expected, rel=1e-6)
    assert entropy.item() == pytest.approx(MIXED.entropy(P).item(), rel=1e-6)


def test_entropy_by_hand() -> None:
    gaussian = 0.5 * math.log(2 * math.pi * math.e * 4)
    assert MIXED.entropy(P).item() == pytest.approx(2 * COIN + gaussian, rel=1e-6)


def test_divergence_by_hand() -> None:
    discrete = math.log(2) - COIN  # KL to a fair coin
    gaussian = math.log(1 / 2) + (4 + 1) / 2 - 0.5
    assert MIXED.kl(P, Q).item() == pytest.approx(2 * discrete + gaussian, rel=1e-5)
    assert MIXED.kl(P, P).item() == pytest.approx(0, abs=1e-6)


def test_draws_are_those_of_the_parts_and_independent() -> None:
    count = 200_000
    draws = MIXED.sample(P.expand(count, 5), torch.Generator().manual_seed(0))
    assert draws.shape == (count, 3) and draws.dtype == torch.float32
    assert draws[:, 0].mean().item() == pytest.approx(0.75, abs=0.01)
    assert draws[:, 1].mean().item() == pytest.approx(0.75, abs=0.01)
    assert draws[:, 2].mean().item() == pytest.approx(1, abs=0.03)
    assert draws[:, 2].std().item() == pytest.approx(2, abs=0.03)
    assert torch.corrcoef(draws.T).triu(1).abs().max() < 0.02
    assert MIXED.mode(P).tolist() == [[1, 1, 1]]


def test_leading_dimensions() -> None:
    inputs = torch.randn(4, 3, MIXED.num_inputs)
    actions = MIXED.sample(inputs)
    assert actions.shape == (4, 3, 3)
    for values in (MIXED.logp(inputs, actions), MIXED.entropy(inputs), MIXED.kl(inputs, inputs)):
        assert values.shape == (4, 3)
    torch.testing.assert_close(
        MIXED.logp(inputs, actions).flatten(),
        MIXED.logp(inputs.reshape(12, -1), actions.reshape(12, -1)),
    )
    assert MIXED.encode(actions).shape == (4, 3, MIXED.num_encoded) == (4, 3, 4)


def test_encoded_actions_are_the_parts_side_by_side() -> None:
    assert MIXED.encode(torch.tensor([[1.0, 0.0, 2.5]])).tolist() == [[0, 1, 0, 2.5]]


def test_masks_of_the_discrete_parts_side_by_side() -> None:
    assert MIXED.num_mask == 4
    mask = torch.tensor([[True, False, False, True]])
    masked = MIXED.mask(P, mask)
    assert masked[0, 1] == ILLEGAL and torch.equal(masked[0, 3:], P[0, 3:])
    rows = masked.expand(10_000, -1)
    for draws in (MIXED.sample(rows), MIXED.mode(rows)):
        assert (draws[:, 0] == 0).all() and (draws[:, 1] == 1).all()
    # Both discrete parts are certain now.
    gaussian = 0.5 * math.log(2 * math.pi * math.e * 4)
    assert MIXED.entropy(masked).item() == pytest.approx(gaussian, rel=1e-6)
    illegal = torch.tensor([[1.0, 0.0, 3.0]])  # in two parts
    assert -math.inf < MIXED.logp(masked, illegal).item() < -1e29
    assert MIXED.allows_something(mask).tolist() == [True]
    assert MIXED.allows_something(torch.tensor([[True, True, False, False]])).tolist() == [False]


def test_a_joint_of_gaussians_has_no_mask() -> None:
    joint = Joint({"a": DiagGaussian((1,))})
    with pytest.raises(ConfigError, match="cannot be masked"):
        joint.mask(torch.zeros(1, 2), torch.ones(1, 0, dtype=torch.bool))
    with pytest.raises(ConfigError, match="without a uniform distribution"):
        MIXED.uniform(P)


def test_standard_deviations_are_found_among_the_inputs() -> None:
    assert list(MIXED.log_std_inputs) == [4]
    assert list(DiagGaussian((2,)).log_std_inputs) == [2, 3]
    two = Joint({"a": DiagGaussian((2,)), "b": Categorical(3), "c": SquashedGaussian((1,))})
    assert list(two.log_std_inputs) == [2, 3, 8]
    assert list(Categorical(3).log_std_inputs) == []


def test_nested_spaces() -> None:
    mixed = Dict([("z", Discrete(3)), ("a", Tuple([Box(0, 1, (2, 2)), MultiBinary(2)]))])
    distribution = distribution_for(mixed)
    assert isinstance(distribution, Joint)
    kinds = {path: type(part) for path, part in distribution.parts.items()}
    assert kinds == {"z": Categorical, "a/0": DiagGaussian, "a/1": MultiBernoulli}
    assert distribution.action_shape == (1 + 4 + 2,)
    assert distribution.num_inputs == 3 + 8 + 2 and distribution.num_encoded == 3 + 4 + 2
    assert distribution.action_dtype == torch.float32
    squashed = distribution_for(mixed, squash=True)
    assert isinstance(squashed, Joint) and isinstance(squashed.parts["a/0"], SquashedGaussian)

    discrete = distribution_for(Tuple([Discrete(3), Dict(x=Box(0, 3, (2,), np.int32))]))
    assert isinstance(discrete, Joint) and discrete.action_dtype == torch.int64
    assert isinstance(discrete.parts["1/x"], MultiCategorical)
    draws = discrete.uniform(torch.zeros(1000, discrete.num_inputs))
    assert draws.dtype == torch.int64 and draws.amax(0).tolist() == [2, 3, 3]


def test_nested_boxes_are_one_gaussian() -> None:
    boxes = Dict(a=Box(0, 1, (2, 2)), b=Tuple([Box(-1, 1, (), np.float64)]))
    assert type(distribution_for(boxes)) is DiagGaussian
    squashed = distribution_for(boxes, squash=True)
    assert type(squashed) is SquashedGaussian and squashed.action_shape == (5,)


def policy_of(**model: object) -> Policy:
    boxes = Box(-1, 1, (2,))
    space = Tuple([boxes, Discrete(3), Box(-1, 1, (1,))])
    return Policy(Box(0, 1, (3,)), space, {"fcnet_hiddens": [4], **model}, seed=0)


OBS = np.random.default_rng(0).random((6, 3), dtype=np.float32)


@pytest.mark.parametrize("free", [True, False])
def test_the_initial_standard_deviation_of_each_gaussian_part(free: bool) -> None:
    inputs = policy_of(initial_log_std=-2.0, free_log_std=free).act(OBS, explore=False).inputs
    assert (inputs[:, [2, 3, 8]] + 2).abs().max() < 0.2
    assert inputs[:, [0, 1, 4, 5, 6, 7]].abs().max() < 0.2


def test_free_standard_deviations_of_a_joint() -> None:
    policy = policy_of(initial_log_std=-2.0, free_log_std=True)
    with torch.no_grad():
        policy.module.get_parameter("log_std").copy_(torch.tensor([-1.0, -2.0, -3.0]))
    inputs = policy.act(OBS, explore=False).inputs
    assert inputs[:, [2, 3, 8]].tolist() == [[-1, -2, -3]] * 6
    others = inputs[:, [0, 1, 4, 5, 6, 7]]
    assert others.abs().max() < 0.2 and len(others.unique()) == others.numel()


def test_a_standard_deviation_that_is_clamped_is_refused_of_parts_too() -> None:
    with pytest.raises(ConfigError, match="initial_log_std = -6 is not allowed"):
        policy_of(initial_log_std=-6.0, squash_actions=True)
