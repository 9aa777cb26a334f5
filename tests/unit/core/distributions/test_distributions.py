"""Distributions against torch.distributions, quadrature and sampling."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from refusals import Golden, refusals
from torch import distributions as td

from trainables.core.distributions.base import Distribution
from trainables.core.distributions.build import distribution_for
from trainables.core.distributions.categorical import Categorical, MultiBernoulli, MultiCategorical
from trainables.core.distributions.gaussian import DiagGaussian, SquashedGaussian

torch.manual_seed(0)
ROWS = 64


def reference(kind: str, inputs: torch.Tensor) -> Any:
    if kind == "categorical":
        return td.Categorical(logits=inputs)
    mean, log_std = inputs.chunk(2, -1)
    return td.Independent(td.Normal(mean, log_std.exp()), 1)


@pytest.mark.parametrize(
    ("kind", "mine", "width"),
    [("categorical", Categorical(5), 5), ("gaussian", DiagGaussian((3,)), 6)],
)
def test_equal_to_torch(kind: str, mine: Any, width: int) -> None:
    p, q = torch.randn(ROWS, width).double(), torch.randn(ROWS, width).double()
    theirs_p, theirs_q = reference(kind, p), reference(kind, q)
    actions = theirs_p.sample()
    torch.testing.assert_close(mine.logp(p, actions), theirs_p.log_prob(actions))
    torch.testing.assert_close(mine.entropy(p), theirs_p.entropy())
    torch.testing.assert_close(mine.kl(p, q), td.kl_divergence(theirs_p, theirs_q))
    logp, entropy = mine.logp_and_entropy(p, actions)
    torch.testing.assert_close(logp, theirs_p.log_prob(actions))
    torch.testing.assert_close(entropy, theirs_p.entropy())


def test_multi_categorical_is_the_product_of_its_parts() -> None:
    mine, p, q = MultiCategorical([2, 3, 4]), torch.randn(ROWS, 9), torch.randn(ROWS, 9)
    parts_p = [td.Categorical(logits=x) for x in p.split([2, 3, 4], -1)]
    parts_q = [td.Categorical(logits=x) for x in q.split([2, 3, 4], -1)]
    actions = mine.sample(p)
    assert actions.shape == (ROWS, 3)
    logp = sum(part.log_prob(actions[:, i]) for i, part in enumerate(parts_p))
    torch.testing.assert_close(mine.logp(p, actions), logp)
    torch.testing.assert_close(mine.entropy(p), sum(part.entropy() for part in parts_p))
    kl = sum(td.kl_divergence(a, b) for a, b in zip(parts_p, parts_q, strict=True))
    torch.testing.assert_close(mine.kl(p, q), kl)


def test_categorical_sampling_frequencies() -> None:
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).expand(200_000, 4)
    counts = Categorical(4).sample(logits, torch.Generator().manual_seed(1)).bincount() / 200_000
    # Five standard errors of a share of 0.5.
    assert (counts - torch.tensor([0.5, 0.3, 0.15, 0.05])).abs().max() < 5 * (0.25 / 200_000) ** 0.5


def test_an_action_of_probability_zero_gives_no_nan() -> None:
    logits = torch.tensor([[0.0, float("-inf"), 1.0]], requires_grad=True)
    entropy = Categorical(3).entropy(logits)
    two = td.Categorical(logits=torch.tensor([0.0, 1.0])).entropy()
    torch.testing.assert_close(entropy[0], two)
    draws = Categorical(3).sample(logits.detach().expand(10_000, 3))
    assert not (draws == 1).any()


def test_gaussian_samples() -> None:
    inputs = torch.tensor([[2.0, -1.0, np.log(0.5), np.log(2.0)]], dtype=torch.float32).expand(
        100_000, 4
    )
    draws = DiagGaussian((2,)).sample(inputs, torch.Generator().manual_seed(1))
    torch.testing.assert_close(draws.mean(0), torch.tensor([2.0, -1.0]), atol=0.03, rtol=0)
    torch.testing.assert_close(draws.std(0), torch.tensor([0.5, 2.0]), atol=0.03, rtol=0)


def test_log_probs_are_summed_over_dimensions_of_any_shape() -> None:
    inputs = torch.randn(ROWS, 12)
    flat, square = DiagGaussian((6,)), DiagGaussian((2, 3))
    actions = flat.sample(inputs)
    torch.testing.assert_close(
        flat.logp(inputs, actions), square.logp(inputs, actions.reshape(ROWS, 2, 3))
    )
    assert square.logp(inputs, actions.reshape(ROWS, 2, 3)).shape == (ROWS,)


def test_squashed_density_integrates_to_one() -> None:
    squashed = SquashedGaussian((1,))
    for mean, log_std in ((0.0, 0.0), (1.0, -1.0), (-2.0, 0.5)):
        u = torch.linspace(-20, 20, 200_001, dtype=torch.float64).unsqueeze(1)
        inputs = torch.tensor([[mean, log_std]], dtype=torch.float64).expand(len(u), 2)
        density = squashed.logp(inputs, u).exp()  # of tanh(u)
        integral = torch.trapezoid(density * (1 - u.squeeze().tanh() ** 2), u.squeeze())
        assert integral.item() == pytest.approx(1, abs=1e-6)


def test_squashed_log_prob_of_a_saturated_action() -> None:
    """float32 at mean 8, sigma 0.01 against float64: atanh of the action would be infinite."""
    squashed = SquashedGaussian((1,))
    u = torch.tensor([[8.005]])
    inputs = torch.tensor([[8.0, np.log(0.01)]], dtype=torch.float32)
    exact = td.Normal(8.0, 0.01).log_prob(u.double()) - torch.log1p(-(u.double().tanh() ** 2))
    assert squashed.logp(inputs, u).item() == pytest.approx(exact.item(), rel=1e-3)


def test_squashed_entropy_is_the_integral() -> None:
    """For means and log sigmas that occur, against the integral over 10^5 points in float64."""
    squashed = SquashedGaussian((1,))
    log_stds, means = torch.linspace(-5, 2, 15), torch.linspace(-8, 8, 17)
    inputs = torch.cartesian_prod(means, log_stds).double()
    z = torch.linspace(-12, 12, 100_001, dtype=torch.float64)
    density = torch.exp(-0.5 * z.square()) / (2 * torch.pi) ** 0.5
    worst: dict[bool, float] = {True: 0.0, False: 0.0}
    for pair, found in zip(inputs, squashed.entropy(inputs.float()), strict=True):
        mean, log_std = pair.unbind()
        u = (mean + log_std.exp() * z).abs()
        log_slope = 2 * (torch.log(torch.tensor(2.0).double()) - u - torch.exp(-2 * u).log1p())
        gaussian = log_std + 0.5 * torch.log(2 * torch.pi * torch.tensor(1.0).double().exp())
        exact = gaussian + torch.trapezoid(density * log_slope, z)
        is_wide = bool(log_std > 1)
        worst[is_wide] = max(worst[is_wide], abs(found.item() - exact.item()))
    assert worst[True] < 1e-3 and worst[False] < 1e-5


def test_squashed_entropy_equals_a_monte_carlo_estimate() -> None:
    squashed = SquashedGaussian((2,))
    inputs = torch.tensor([[0.3, -1.0, -0.5, 0.2]]).expand(400_000, 4)
    draws = squashed.sample(inputs, torch.Generator().manual_seed(3))
    estimate = -squashed.logp(inputs, draws).mean()
    assert squashed.entropy(inputs[:1]).item() == pytest.approx(estimate.item(), abs=0.01)


@pytest.mark.parametrize(
    "distribution", [Categorical(3), DiagGaussian((2,)), SquashedGaussian((2,))]
)
def test_the_mode_is_the_most_likely(distribution: Any) -> None:
    inputs = torch.randn(ROWS, distribution.num_inputs)
    mode = distribution.mode(inputs)
    if not isinstance(distribution, SquashedGaussian):  # there: the image of the Gaussian's mode
        best = distribution.logp(inputs, mode)
        for _ in range(50):
            assert (distribution.logp(inputs, distribution.sample(inputs)) <= best + 1e-6).all()
    assert mode.shape[1:] == distribution.action_shape


def test_bits_are_independent_bernoullis() -> None:
    mine, p, q = MultiBernoulli((2, 3)), torch.randn(ROWS, 6), torch.randn(ROWS, 6)
    theirs_p, theirs_q = (td.Independent(td.Bernoulli(logits=x), 1) for x in (p, q))
    actions = mine.sample(p)
    assert actions.shape == (ROWS, 2, 3) and actions.dtype == torch.int64
    flat = actions.reshape(ROWS, 6).float()
    torch.testing.assert_close(mine.logp(p, actions), theirs_p.log_prob(flat))
    torch.testing.assert_close(mine.entropy(p), theirs_p.entropy())
    torch.testing.assert_close(mine.kl(p, q), td.kl_divergence(theirs_p, theirs_q))
    assert torch.equal(mine.encode(actions), flat)
    assert torch.equal(mine.mode(p).reshape(ROWS, 6), (p > 0).long())


def test_the_frequencies_of_bits() -> None:
    inputs = torch.tensor([0.9, 0.5, 0.05]).logit().expand(200_000, 3)
    for draw, shares in (("sample", [0.9, 0.5, 0.05]), ("uniform", [0.5] * 3)):
        draws = getattr(MultiBernoulli((3,)), draw)(inputs, torch.Generator().manual_seed(1))
        error = (draws.float().mean(0) - torch.tensor(shares)).abs().max()
        assert error < 5 * (0.25 / 200_000) ** 0.5  # five standard errors of a share of 0.5


def test_encoded_actions() -> None:
    def encoded(distribution: Distribution, actions: list[Any]) -> list[float]:
        rows = distribution.encode(torch.tensor([actions], dtype=distribution.action_dtype))
        assert rows.shape == (1, distribution.num_encoded) and rows.dtype == torch.float32
        return rows[0].tolist()

    assert Categorical(3).encode(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert encoded(MultiCategorical([2, 3]), [1, 0]) == [0, 1, 1, 0, 0]
    assert encoded(MultiCategorical([2, 1, 2], (3, 1)), [[1], [0], [0]]) == [0, 1, 1, 1, 0]
    assert encoded(MultiBernoulli((2,)), [1, 0]) == [1, 0]
    assert encoded(DiagGaussian((2,)), [3.0, -1.0]) == [3, -1]
    assert encoded(SquashedGaussian((1,)), [0.5]) == pytest.approx([np.tanh(0.5)])


@pytest.mark.parametrize(
    ("space", "kind", "num_inputs", "num_mask", "action_shape"),
    [
        (gym.spaces.Discrete(3, start=-5), Categorical, 3, 3, ()),
        (gym.spaces.MultiDiscrete([[2, 3], [4, 1]]), MultiCategorical, 10, 10, (2, 2)),
        (gym.spaces.MultiBinary([2, 2]), MultiBernoulli, 4, 8, (2, 2)),
        (gym.spaces.Box(0, 1, (2, 3), np.float64), DiagGaussian, 12, 0, (2, 3)),
        (gym.spaces.Box(0, 1, (), np.float16), DiagGaussian, 2, 0, ()),
        (gym.spaces.Box(-2, 2, (3,), np.int8), MultiCategorical, 15, 15, (3,)),
        (gym.spaces.Box(0, 255, (1,), np.uint8), MultiCategorical, 256, 256, (1,)),
        (gym.spaces.Box(0, 1, (2,), np.bool_), MultiCategorical, 4, 4, (2,)),
    ],
)
def test_the_distribution_of_each_space(
    space: gym.Space, kind: type, num_inputs: int, num_mask: int, action_shape: tuple[int, ...]
) -> None:
    distribution = distribution_for(space)
    assert type(distribution) is kind
    assert (distribution.num_inputs, distribution.num_mask) == (num_inputs, num_mask)
    assert distribution.action_shape == action_shape
    sample = distribution.sample(torch.zeros(5, num_inputs))
    assert sample.shape == (5, *action_shape) and sample.dtype == distribution.action_dtype


def test_unsupported_spaces(golden: Golden) -> None:
    cases = [
        gym.spaces.Text(3),
        gym.spaces.Box(0, 256, (2,), np.int64),
        gym.spaces.Box(-np.inf, 1, (2,), np.int64),
        gym.spaces.Box(0, 1, (2, 0)),
        gym.spaces.Dict(a=gym.spaces.Box(0, 999, (), np.int32)),
    ]
    golden(
        "distributions/unsupported_spaces", refusals(lambda space: distribution_for(space), cases)
    )
