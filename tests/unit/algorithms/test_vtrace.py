"""V-trace against the paper's sum, closed forms, and what off-by-ones would give."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables.core.learning.returns import VTrace, gae, vtrace

GAMMA = 0.9


def random_rollout(seed: int, length: int = 30, slots: int = 3) -> dict[str, Tensor]:
    """With ends of both kinds; no row begins with the state that a truncated one leads to."""
    random = np.random.default_rng(seed)
    values = torch.from_numpy(random.normal(size=(length + 1, slots)))
    terminated = torch.from_numpy(random.random((length, slots)) < 0.1)
    truncated = torch.from_numpy(random.random((length, slots)) < 0.1)
    next_values = values[1:].clone()
    next_values[truncated] += 5.0
    return {
        "log_rhos": torch.from_numpy(random.normal(size=(length, slots))),
        "rewards": torch.from_numpy(random.normal(size=(length, slots))),
        "values": values[:-1],
        "next_values": next_values,
        "terminated": terminated,
        "continues": ~(terminated | truncated),
    }


def without_rho(rollout: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: column for name, column in rollout.items() if name != "log_rhos"}


def slow_vtrace(
    rollout: dict[str, Tensor], lambda_: float, rho_bar: float, c_bar: float, pg_rho_bar: float
) -> VTrace:
    """Equation 1 as it is written: for each start s a sum over t of products of c."""
    rows = {name: column.numpy() for name, column in rollout.items()}
    rhos, targets = np.exp(rows["log_rhos"]), rows["values"].copy()
    length, slots = targets.shape

    def bootstrap(t: int, n: int) -> float:
        return 0.0 if rows["terminated"][t, n] else rows["next_values"][t, n]

    for n in range(slots):
        for s in range(length):
            product = 1.0
            for t in range(s, length):
                delta = rows["rewards"][t, n] + GAMMA * bootstrap(t, n) - rows["values"][t, n]
                targets[s, n] += GAMMA ** (t - s) * product * min(rho_bar, rhos[t, n]) * delta
                if not rows["continues"][t, n]:
                    break
                product *= lambda_ * min(c_bar, rhos[t, n])
    advantages = np.zeros_like(targets)
    for t in range(length):
        for n in range(slots):
            after = bootstrap(t, n)
            if t + 1 < length and rows["continues"][t, n]:
                after = lambda_ * targets[t + 1, n] + (1 - lambda_) * after
            error = rows["rewards"][t, n] + GAMMA * after - rows["values"][t, n]
            advantages[t, n] = min(pg_rho_bar, rhos[t, n]) * error
    return VTrace(torch.from_numpy(targets), torch.from_numpy(advantages))


@pytest.mark.parametrize(
    "bounds",
    [(1.0, 1.0, 1.0, 1.0), (1.0, 2.0, 1.0, 0.5), (0.9, 3.0, 0.7, 1.5), (0.0, 1.0, 1.0, 1.0)],
)
def test_vtrace_equals_the_papers_sum(bounds: tuple[float, float, float, float]) -> None:
    rollout = random_rollout(seed=7)
    fast, slow = vtrace(**rollout, gamma=GAMMA, **named(bounds)), slow_vtrace(rollout, *bounds)
    torch.testing.assert_close(fast.targets, slow.targets)
    torch.testing.assert_close(fast.advantages, slow.advantages)


def named(bounds: tuple[float, float, float, float]) -> dict[str, float]:
    return dict(zip(("lambda_", "rho_bar", "c_bar", "pg_rho_bar"), bounds, strict=True))


def test_without_bounds_is_with_very_high_ones() -> None:
    rollout = random_rollout(seed=8, length=8)
    free = vtrace(**rollout, gamma=GAMMA, rho_bar=None, c_bar=None, pg_rho_bar=None)
    slow = slow_vtrace(rollout, 1.0, math.inf, math.inf, math.inf)
    torch.testing.assert_close(free.targets, slow.targets)
    torch.testing.assert_close(free.advantages, slow.advantages)


def test_by_hand() -> None:
    """Two steps, gamma 0.5: rho 2 is cut to 1 in delta and c, and to 1.5 in the advantage."""

    def column(*values: float) -> Tensor:
        return torch.tensor(values, dtype=torch.float64).unsqueeze(1)

    result = vtrace(
        column(math.log(2), math.log(0.5)),
        column(1, 2),
        column(10, 20),
        column(20, 30),
        torch.tensor([[False], [False]]),
        torch.tensor([[True], [False]]),
        gamma=0.5,
        pg_rho_bar=1.5,
    )
    # delta = [1 + 10 - 10, 2 + 15 - 20] = [1, -3]; w1 = .5 * -3, w0 = 1 + .5 * w1 = .25
    assert result.targets.flatten().tolist() == [10.25, 18.5]
    # (1 + .5 * 18.5 - 10) * 1.5 and -3 * .5
    assert result.advantages.flatten().tolist() == [0.375, -1.5]


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
def test_on_policy_it_is_gae(lambda_: float) -> None:
    """With lambda = 1 that is the return, bootstrapped at the fragment's or a truncation's end."""
    rollout = random_rollout(seed=3)
    rollout["log_rhos"].zero_()
    result = vtrace(**rollout, gamma=GAMMA, lambda_=lambda_)
    advantages = gae(**without_rho(rollout), gamma=GAMMA, lambda_=lambda_)
    torch.testing.assert_close(result.advantages, advantages)
    torch.testing.assert_close(result.targets, rollout["values"] + advantages)


def test_without_traces_targets_are_of_one_step() -> None:
    rollout = random_rollout(seed=4)
    bootstraps = rollout["next_values"].masked_fill(rollout["terminated"], 0.0)
    deltas = rollout["rewards"] + GAMMA * bootstraps - rollout["values"]
    targets = vtrace(**rollout, gamma=GAMMA, c_bar=0.0).targets
    expected = rollout["values"] + rollout["log_rhos"].exp().clamp_max(1.0) * deltas
    torch.testing.assert_close(targets, expected)


def test_a_split_at_an_episodes_end_equals_the_whole() -> None:
    """With a truncation amid either part, too: nothing leaks over it, and nothing is lost."""
    rollout = random_rollout(seed=5)
    for row in (7, 14, 22):
        rollout["terminated"][row], rollout["continues"][row] = False, False
    whole = vtrace(**rollout, gamma=GAMMA)
    parts = [
        vtrace(**{name: column[part] for name, column in rollout.items()}, gamma=GAMMA)
        for part in (slice(0, 15), slice(15, 30))
    ]
    for field in VTrace._fields:
        joined = torch.cat([getattr(part, field) for part in parts])
        torch.testing.assert_close(getattr(whole, field), joined)


def test_what_follows_an_episodes_end_does_not_matter() -> None:
    rollout = random_rollout(seed=9)
    rollout["continues"][10] = False
    before = vtrace(**rollout, gamma=GAMMA)
    rollout["rewards"][11:] += 1e6
    rollout["values"][11:] += 1e6
    rollout["log_rhos"][11:] += 3.0
    after = vtrace(**rollout, gamma=GAMMA)
    for field in VTrace._fields:
        assert torch.equal(getattr(before, field)[:11], getattr(after, field)[:11])


def test_a_truncated_step_bootstraps_from_its_successor_and_a_terminal_one_does_not() -> None:
    one, zero = torch.ones(1, 1), torch.zeros(1, 1)
    step = (zero, one, 10 * one, 20 * one)
    no, yes = torch.tensor([[False]]), torch.tensor([[True]])
    cut, ended = (vtrace(*step, end, no, gamma=0.5) for end in (no, yes))
    assert (cut.targets.item(), cut.advantages.item()) == (11.0, 1.0)
    assert (ended.targets.item(), ended.advantages.item()) == (1.0, -9.0)


def test_in_a_chain_of_a_constant_value_targets_are_right_at_every_row() -> None:
    """Reward 1 for ever: V = 1 / (1 - gamma) is its own target, whatever rho, also at the ends.

    A shift by one row, a bootstrap that is dropped, or one that leaks shows at once.
    """
    shape = (20, 2)
    value = torch.full(shape, 1 / (1 - GAMMA), dtype=torch.float64)
    continues = torch.ones(shape, dtype=torch.bool)
    continues[[6, 19]] = False
    result = vtrace(
        torch.linspace(-2, 2, 40, dtype=torch.float64).view(shape),
        torch.ones(shape, dtype=torch.float64),
        value,
        value,
        torch.zeros(shape, dtype=torch.bool),
        continues,
        GAMMA,
    )
    torch.testing.assert_close(result.targets, value)
    torch.testing.assert_close(result.advantages, torch.zeros_like(value), rtol=0, atol=1e-12)


def test_no_gradient_flows_through_targets_and_advantages() -> None:
    rollout = random_rollout(seed=1)
    for name in ("log_rhos", "values", "next_values"):
        rollout[name] = rollout[name].clone().requires_grad_()
    result = vtrace(**rollout, gamma=GAMMA)
    assert not result.targets.requires_grad and not result.advantages.requires_grad


def test_inputs_are_left_alone_and_shapes_are_checked() -> None:
    rollout = random_rollout(seed=2)
    before = {name: column.clone() for name, column in rollout.items()}
    vtrace(**rollout, gamma=GAMMA)
    assert all(torch.equal(column, before[name]) for name, column in rollout.items())
    rollout["log_rhos"] = rollout["log_rhos"][1:]
    with pytest.raises(ValueError, match=r"log_rhos.*29"):
        vtrace(**rollout, gamma=GAMMA)
