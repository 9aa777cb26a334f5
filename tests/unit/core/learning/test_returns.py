"""Advantages against numbers worked by hand, closed forms and a slow loop."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables.core.learning.returns import (
    discounted_returns,
    explained_by_moments,
    explained_variance,
    gae,
    lambda_return,
    moments,
    root_mean_square,
    standard_deviation,
)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


def flags(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.bool).unsqueeze(1)


def test_gae_by_hand() -> None:
    # Two steps, then a terminal one; gamma 0.5, lambda 0.5.
    # delta = [1 + .5*20 - 10, 2 + .5*30 - 20, 3 + 0 - 30] = [1, -3, -27]
    # A2 = -27, A1 = -3 + .25 * -27 = -9.75, A0 = 1 + .25 * -9.75 = -1.4375
    advantages = gae(
        column(1, 2, 3),
        column(10, 20, 30),
        column(20, 30, 99),
        flags(0, 0, 1),
        flags(1, 1, 0),
        gamma=0.5,
        lambda_=0.5,
    )
    assert advantages.squeeze().tolist() == [-1.4375, -9.75, -27.0]


def test_truncation_bootstraps_and_termination_does_not() -> None:
    arguments = (column(1), column(10), column(20))
    cut = gae(*arguments, flags(0), flags(0), gamma=0.5, lambda_=0.9)
    ended = gae(*arguments, flags(1), flags(0), gamma=0.5, lambda_=0.9)
    assert cut.item() == 1 + 0.5 * 20 - 10
    assert ended.item() == 1 - 10


def test_the_recursion_stops_at_an_episode_end() -> None:
    """Row 1 is another episode: whatever happens there, row 0's advantage stays."""
    for later in (0.0, 1e6):
        advantages = gae(
            column(1, later), column(3, 4), column(5, 6), flags(0, 0), flags(0, 0), 0.9, 0.9
        )
        assert advantages[0].item() == pytest.approx(1 + 0.9 * 5 - 3)


def random_rollout(seed: int, length: int = 40, slots: int = 3) -> dict[str, Tensor]:
    random = np.random.default_rng(seed)
    values = torch.from_numpy(random.normal(size=(length + 1, slots)))
    terminated = torch.from_numpy(random.random((length, slots)) < 0.1)
    truncated = torch.from_numpy(random.random((length, slots)) < 0.1)
    return {
        "rewards": torch.from_numpy(random.normal(size=(length, slots))),
        "values": values[:-1],
        "next_values": values[1:],
        "terminated": terminated,
        "continues": ~(terminated | truncated),
    }


def slow_gae(rollout: dict[str, Tensor], gamma: float, lambda_: float) -> Tensor:
    """The definition: a weighted sum of deltas up to the episode's end, row by row."""
    rewards, result = rollout["rewards"], torch.zeros_like(rollout["rewards"])
    length, slots = rewards.shape
    for n in range(slots):
        for start in range(length):
            weight = 1.0
            for t in range(start, length):
                bootstrap = 0.0 if rollout["terminated"][t, n] else rollout["next_values"][t, n]
                delta = rewards[t, n] + gamma * bootstrap - rollout["values"][t, n]
                result[start, n] += weight * delta
                if not rollout["continues"][t, n]:
                    break
                weight *= gamma * lambda_
    return result


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.95, 1.0])
def test_gae_equals_a_slow_loop(lambda_: float) -> None:
    rollout = random_rollout(seed=7)
    fast = gae(**rollout, gamma=0.97, lambda_=lambda_)
    torch.testing.assert_close(fast, slow_gae(rollout, 0.97, lambda_))


def test_lambda_1_is_the_bootstrapped_return_minus_the_value() -> None:
    rollout = random_rollout(seed=3)
    rollout["continues"][-1] = False
    advantages = gae(**rollout, gamma=0.9, lambda_=1.0)
    returns = discounted_returns(
        rollout["rewards"], rollout["next_values"], rollout["terminated"], rollout["continues"], 0.9
    )
    torch.testing.assert_close(advantages + rollout["values"], returns)


def discounts_of(rollout: dict[str, Tensor], gamma: float) -> Tensor:
    return gamma * (~rollout["terminated"]).double()


def returns_of(rollout: dict[str, Tensor], discounts: Tensor, lambda_: float) -> Tensor:
    rewards, next_values = rollout["rewards"], rollout["next_values"]
    return lambda_return(rewards, next_values, discounts, rollout["continues"], lambda_)


def slow_lambda_return(rollout: dict[str, Tensor], discounts: Tensor, lambda_: float) -> Tensor:
    """Sutton and Barto's definition (eq. 12.3): n-step returns, weighted by (1 - lambda) lambda^n.

    The longest one, up to where the episode or the rollout ends, has what is left of the weights.
    """
    rewards, result = rollout["rewards"], torch.zeros_like(rollout["rewards"])
    length, slots = rewards.shape
    for n in range(slots):
        for start in range(length):
            weight, discount, total = 1.0, 1.0, 0.0
            for t in range(start, length):
                total += discount * float(rewards[t, n])
                discount *= float(discounts[t, n])
                so_far = total + discount * float(rollout["next_values"][t, n])
                is_last = t == length - 1 or not bool(rollout["continues"][t, n])
                result[start, n] += weight * (1.0 if is_last else 1 - lambda_) * so_far
                weight *= lambda_
                if is_last:
                    break
    return result


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.95, 1.0])
def test_lambda_return_equals_the_definition_and_gae_with_the_values(lambda_: float) -> None:
    rollout = random_rollout(seed=8)
    discounts = discounts_of(rollout, 0.97)
    fast = returns_of(rollout, discounts, lambda_)
    torch.testing.assert_close(fast, slow_lambda_return(rollout, discounts, lambda_))
    expected = gae(**rollout, gamma=0.97, lambda_=lambda_) + rollout["values"]
    torch.testing.assert_close(fast, expected)


def test_lambda_return_with_predicted_continuations_equals_the_definition() -> None:
    rollout = random_rollout(seed=9)
    rollout["continues"] = torch.ones_like(rollout["continues"])
    probabilities = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)).double()
    discounts = 0.99 * probabilities
    expected = slow_lambda_return(rollout, discounts, 0.95)
    torch.testing.assert_close(returns_of(rollout, discounts, 0.95), expected)


def test_gradients_flow_through_lambda_returns_to_all_that_is_predicted() -> None:
    rollout = random_rollout(seed=10, length=6, slots=2)
    discounts = 0.9 * discounts_of(rollout, 1.0)
    predicted = (rollout["rewards"], rollout["next_values"], discounts)
    for part in predicted:
        part.requires_grad_()
    returns = returns_of(rollout, discounts, 0.8)
    with torch.no_grad():
        torch.testing.assert_close(returns.detach(), returns_of(rollout, discounts, 0.8))
    assert torch.autograd.gradcheck(
        lambda *parts: lambda_return(*parts, rollout["continues"], 0.8), predicted
    )


def test_the_shapes_of_lambda_returns_are_checked() -> None:
    rollout = random_rollout(seed=1)
    with pytest.raises(ValueError, match=r"discounts.*39"):
        returns_of(rollout, discounts_of(rollout, 0.9)[:-1], 0.9)


def test_a_rollout_split_at_an_episode_end_equals_the_whole() -> None:
    rollout = random_rollout(seed=5)
    rollout["terminated"][19], rollout["continues"][19] = True, False
    whole = gae(**rollout, gamma=0.9, lambda_=0.8)
    parts = [
        gae(**{k: v[part] for k, v in rollout.items()}, gamma=0.9, lambda_=0.8)
        for part in (slice(0, 20), slice(20, 40))
    ]
    torch.testing.assert_close(whole, torch.cat(parts))


def test_lambda_0_split_anywhere_equals_the_whole() -> None:
    rollout = random_rollout(seed=6)
    whole = gae(**rollout, gamma=0.9, lambda_=0.0)
    parts = [
        gae(**{k: v[part] for k, v in rollout.items()}, gamma=0.9, lambda_=0.0)
        for part in (slice(0, 13), slice(13, 40))
    ]
    torch.testing.assert_close(whole, torch.cat(parts))


def test_shapes_are_checked() -> None:
    rollout = random_rollout(seed=1)
    rollout["next_values"] = rollout["next_values"][:-1]
    with pytest.raises(ValueError, match=r"next_values.*39"):
        gae(**rollout, gamma=0.9, lambda_=0.9)


def test_inputs_are_left_alone() -> None:
    rollout = random_rollout(seed=2)
    before = {name: tensor.clone() for name, tensor in rollout.items()}
    gae(**rollout, gamma=0.9, lambda_=0.9)
    for name, tensor in rollout.items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("center", [0.0, 1e4])
def test_explained_variance_from_moments_of_parts(center: float) -> None:
    """Whatever the parts, and however far from 0 the targets lie."""
    generator = torch.Generator().manual_seed(0)
    targets = center + torch.randn(600, generator=generator)
    predictions = targets + 0.5 * torch.randn(600, generator=generator) - 3
    parts = [torch.tensor(moments(rows)) for rows in targets.split([100, 500])]
    residuals = [torch.tensor(moments(rows)) for rows in (targets - predictions).split([100, 500])]
    joined = [(one[0] + 5 * one[1]) / 6 for one in (parts, residuals)]
    found = explained_by_moments(*joined[0].tolist(), *joined[1].tolist())
    expected = explained_variance(predictions.double(), targets.double())
    assert found == pytest.approx(expected.item(), abs=1e-5)
    flat = torch.full((7,), 0.1 + center)
    assert explained_by_moments(*(m.item() for m in moments(flat)), 0.0, 1.0) == 0
    assert moments(flat[:0]) == (0, 0)


def test_explained_variance() -> None:
    targets = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(targets, targets).item() == 1
    assert explained_variance(torch.full((3,), 2.0), targets).item() == 0
    assert explained_variance(targets, torch.ones(3)).item() == 0


def test_scales_of_rows() -> None:
    assert standard_deviation(torch.tensor([1.0, 2.0, 3.0])) == 1
    assert root_mean_square(torch.tensor([1.0, -1.0, 5.0, -5.0])) == pytest.approx(13**0.5)
    assert root_mean_square(torch.tensor([1e25, 1e25])) == pytest.approx(1e25)  # not infinite
    for few in (torch.zeros(0), torch.zeros(1)):
        assert standard_deviation(few) == root_mean_square(few) == 0
