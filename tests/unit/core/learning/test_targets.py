"""Target networks, parameter groups with rates of their own, and clocks that do not drift."""

import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainables.core.config.resolved import exact
from trainables.core.learning.learner import Learner
from trainables.core.learning.schedules import Clock


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def parameters(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def make_learner(seed: int = 0) -> Learner:
    module = network(seed)
    learner = Learner(
        module, {"type": "sgd"}, groups={"q": module.parameters()}, targets={"q": module}
    )
    learner.set_lr(0.1)
    return learner


def train(learner: Learner, count: int = 1) -> None:
    for i in range(count):
        x = torch.full((2, 3), float(i + 1))
        learner.update_step({"x": x}, lambda net, batch: (net(batch["x"]).square().sum(), {}))


@pytest.mark.parametrize("tau", [0.0, 0.005, 0.3, 1.0])
def test_target_update(tau: float) -> None:
    """tau = 0 changes nothing, tau = 1 copies, both to the bit."""
    learner = make_learner()
    target = learner.targets["q"].network
    old = parameters(target)
    assert torch.equal(old, parameters(learner.module))
    train(learner)
    online = parameters(learner.module)
    assert not torch.equal(online, old) and torch.equal(parameters(target), old)
    learner.update_target("q", tau)
    new = parameters(target)
    torch.testing.assert_close(new, tau * online + (1 - tau) * old)
    assert torch.equal(new, {0.0: old, 1.0: online}.get(tau, new))
    assert torch.equal(parameters(learner.module), online)
    if 0 < tau < 1:  # again and again it comes near
        for _ in range(3):
            learner.update_target("q", tau)
        torch.testing.assert_close(parameters(target), online + (1 - tau) ** 4 * (old - online))


def test_a_target_network_takes_no_gradient() -> None:
    learner = make_learner()
    target = learner.targets["q"].network
    assert not any(p.requires_grad for p in target.parameters())

    def loss_fn(net: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return (net(batch["x"]) - target(batch["x"])).square().sum() + net(batch["x"]).sum(), {}

    old = parameters(target)
    learner.update_step({"x": torch.randn(5, 3)}, loss_fn)
    assert all(p.grad is None or not p.grad.any() for p in target.parameters())
    assert torch.equal(parameters(target), old)


def test_targets_are_restored_to_the_bit() -> None:
    one, two = make_learner(0), make_learner(1)
    train(one, 3)
    one.update_target("q", 0.3)
    train(one)
    state = one.get_state()
    expected = parameters(one.targets["q"].network)
    one.update_target("q", 1.0)  # the state is a copy
    two.set_state(state)
    assert torch.equal(parameters(two.targets["q"].network), expected)
    assert not torch.equal(expected, parameters(one.module))


# ---------------------------------------------------------------------- groups


class Two(nn.Module):
    """Two networks whose losses are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = network(1), network(2)


RATES = {"a": 0.01, "b": 0.003}
SCALES = {"a": 1.0, "b": 50.0}  # gradients whose norms lie far apart


def losses(module: Two, x: Tensor) -> dict[str, Tensor]:
    return {n: SCALES[n] * getattr(module, n)(x).square().mean() for n in ("a", "b")}


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ({"type": "adam", "eps": 1e-8}, lambda p, lr: torch.optim.Adam(p, lr=lr)),
        ({"type": "sgd", "momentum": 0.9}, lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)),
    ],
)
def test_groups_equal_separate_optimisers(
    settings: dict[str, Any], reference: Any, clip: float | None
) -> None:
    """Each with a rate of its own, clipped by the norm of its own."""
    mine = Two()
    theirs = copy.deepcopy(mine)
    learner = Learner(
        mine, settings, clip, groups={"a": mine.a.parameters(), "b": mine.b.parameters()}
    )
    learner.set_lr(RATES)
    optimizers = {n: reference(getattr(theirs, n).parameters(), RATES[n]) for n in RATES}
    norms: list[list[float]] = []

    def loss_fn(module: Two, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return sum(losses(module, batch["x"]).values(), torch.zeros(())), {}

    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        x = torch.randn(16, 3, generator=generator)
        metrics = learner.update_step({"x": x}, loss_fn)
        for name, optimizer in optimizers.items():
            net = getattr(theirs, name)
            optimizer.zero_grad()
            losses(theirs, x)[name].backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), clip or 1e9)
            torch.testing.assert_close(metrics[f"{name}_grad_norm"], norm, rtol=1e-3, atol=0)
            optimizer.step()
        norms.append([metrics["a_grad_norm"].item(), metrics["b_grad_norm"].item()])
    assert clip is None or (np.array(norms)[:, 1] > clip).any()  # it did clip
    torch.testing.assert_close(parameters(mine), parameters(theirs), rtol=1e-4, atol=2e-6)


def test_a_rate_of_zero_keeps_its_group() -> None:
    module = Two()
    learner = Learner(module, {}, groups={"a": module.a.parameters(), "b": module.b.parameters()})
    learner.set_lr({"a": 0.0, "b": 0.1})
    before = parameters(module.a), parameters(module.b)
    learner.update_step(
        {"x": torch.ones(2, 3)},
        lambda m, batch: (sum(losses(m, batch["x"]).values(), torch.zeros(())), {}),
    )
    assert torch.equal(parameters(module.a), before[0])
    assert not torch.equal(parameters(module.b), before[1])


# ---------------------------------------------------------------------- clocks

RATIOS = [Fraction(2, 3), exact(0.1) / 32, exact(100 / 3) / 256, Fraction(7, 2), exact(3) / 8]


@pytest.mark.parametrize("rate", RATIOS)
def test_a_clock_never_drifts(rate: Fraction) -> None:
    rng, clock = np.random.default_rng(0), Clock(rate)
    progress = due = 0
    for units in rng.integers(0, 9, 2000).tolist():
        due += clock.advance(units)
        progress += units
        assert due == progress * rate.numerator // rate.denominator


def test_a_clocks_state_goes_on_and_survives_another_rate() -> None:
    clock, again = Clock(Fraction(2, 7)), Clock(Fraction(2, 7))
    clock.advance(3)  # 6/7 owed
    again.set_state(clock.get_state())
    assert [again.advance(1) for _ in range(7)] == [clock.advance(1) for _ in range(7)]
    other = Clock(Fraction(1, 14))
    clock.advance(3)
    other.set_state(clock.get_state())
    # 13 units are 3 and 5/7, and four fourteenths more are one.
    assert [other.advance(1) for _ in range(5)] == [0, 0, 0, 1, 0]


def test_numbers_are_taken_as_they_are_written() -> None:
    assert exact(0.1) == Fraction(1, 10) and exact(3) == 3 and exact(2.5e-4) == Fraction(1, 4000)
