"""Losses take tensors as coefficients, and are lifted over members, each with its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from trainables.a2c import A2CCoefficients, a2c_loss
from trainables.core.data.batch import Batch
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.categorical import Categorical, MultiCategorical
from trainables.core.distributions.gaussian import DiagGaussian
from trainables.core.learning.impact import APPOCoefficients, appo_loss
from trainables.core.learning.impala_loss import IMPALACoefficients, impala_loss
from trainables.core.learning.returns import Estimation
from trainables.core.networks.modules import ModuleOutput
from trainables.ppo import PPOCoefficients, ppo_loss

NUM_MEMBERS, NUM_ROWS, LENGTH, SLOTS = 3, 12, 5, 4
MEAN: Any = "mean"


class Case(NamedTuple):
    """A loss, and the coefficients of each member."""

    loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]
    members: list[Any]
    is_of_fragments: bool = False


def estimation(k: int, vtrace: bool = True) -> Estimation:
    return Estimation(0.9 + 0.03 * k, 1.0 - 0.1 * k, vtrace, 1.0 + k, 1.5 + k)


MEMBERS = range(NUM_MEMBERS)
CASES = {
    "PPO": Case(
        ppo_loss,
        [PPOCoefficients(0.1 + 0.1 * k, 0.01 * (k + 1), 0.2, 0.5, 1.0 + k) for k in MEMBERS],
    ),
    "PPO without": Case(ppo_loss, [PPOCoefficients(0.2, 0.01, 0.1, 0.5, None) for _ in MEMBERS]),
    "A2C": Case(a2c_loss, [A2CCoefficients(0.5 * (k + 1), 0.01 * (k + 1)) for k in MEMBERS]),
    "APPO": Case(
        appo_loss, [APPOCoefficients(0.2, 1.5 + k, 0.5, 0.01 * (k + 1), 0.3) for k in MEMBERS]
    ),
    "IMPALA": Case(
        impala_loss,
        [IMPALACoefficients(estimation(k), 0.5, 0.01 * (k + 1), MEAN, True) for k in MEMBERS],
        True,
    ),
    "IMPALA with GAE": Case(
        impala_loss,
        [IMPALACoefficients(estimation(k, False), 0.5, 0.02, "sum", True) for k in MEMBERS],
        True,
    ),
}
DISTRIBUTIONS: list[Distribution] = [
    Categorical(3),
    MultiCategorical([2, 3]),
    DiagGaussian((2,)),
]


def experience(case: Case, distribution: Distribution, member: int) -> tuple[ModuleOutput, Batch]:
    """What a member's network says of its rows, and the rows."""
    random = torch.Generator().manual_seed(member)
    shape = (LENGTH, SLOTS) if case.is_of_fragments else (NUM_ROWS,)
    rows = (LENGTH + 1, SLOTS) if case.is_of_fragments else shape

    def numbers(*extra: int, of: tuple[int, ...] = shape) -> Tensor:
        return torch.randn(*of, *extra, generator=random)

    inputs = numbers(distribution.num_inputs, of=rows)
    before = numbers(distribution.num_inputs)
    actions = distribution.sample(before, random)
    logp = distribution.logp(before, actions)
    batch = {"actions": actions, "logp": logp, "dist_inputs": before, "target_inputs": before}
    batch |= {"target_logp": logp + 0.1 * numbers(), "advantages": numbers()}
    batch |= {"value_targets": numbers(), "rewards": numbers()}
    valid = numbers() > -1.0  # of each member others
    batch |= {"valid": valid, "terminated": numbers() > 1.0, "continues": valid & (numbers() < 1.0)}
    return ModuleOutput(inputs, numbers(of=rows)), batch


def as_tensors(coefficients: Any) -> Any:
    """The same with tensors for numbers, nested ones too."""
    if isinstance(coefficients, float):
        return torch.tensor(coefficients)
    if isinstance(coefficients, tuple):
        return type(coefficients)(*map(as_tensors, coefficients))  # type: ignore[call-arg]
    return coefficients


def numbers_only(like: Any, numbers: list[Tensor]) -> Any:
    """`like` with its tensors replaced, one after the other."""
    if isinstance(like, Tensor):
        return numbers.pop(0)
    if isinstance(like, tuple):
        return type(like)(*(numbers_only(part, numbers) for part in like))  # type: ignore[call-arg]
    return like


def leaves(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else []


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("name", CASES)
def test_members_are_lifted_with_coefficients_of_their_own(
    name: str, distribution: Distribution
) -> None:
    """Losses and gradients of all members at once, and of one after the other with floats."""
    case = CASES[name]
    given = [experience(case, distribution, k) for k in MEMBERS]

    def loss_of(inputs: Tensor, values: Tensor, batch: Batch, coefficients: Any) -> Any:
        return case.loss(ModuleOutput(inputs, values), batch, distribution, coefficients)

    gradients_of = partial(torch.func.grad, argnums=(0, 1), has_aux=True)

    def lifted(inputs: Tensor, values: Tensor, batch: Batch, *numbers: Tensor) -> Any:
        coefficients = numbers_only(as_tensors(case.members[0]), list(numbers))
        return gradients_of(loss_of)(inputs, values, batch, coefficients)

    stacked = {key: torch.stack([batch[key] for _, batch in given]) for key in given[0][1]}
    of_members = [leaves(as_tensors(coefficients)) for coefficients in case.members]
    numbers = [torch.stack(of) for of in zip(*of_members, strict=True)]
    outputs = [torch.stack(part) for part in zip(*(output for output, _ in given), strict=True)]
    gradients, metrics = torch.func.vmap(lifted)(*outputs, stacked, *numbers)
    for k, ((inputs, values), batch) in enumerate(given):
        expected, found = gradients_of(loss_of)(inputs, values, batch, case.members[k])
        torch.testing.assert_close([part[k] for part in gradients], list(expected))
        one = {key: value[k] for key, value in metrics.items()}
        torch.testing.assert_close(one, dict(found), check_dtype=False)
        with_tensors = gradients_of(loss_of)(inputs, values, batch, as_tensors(case.members[k]))[0]
        torch.testing.assert_close(list(with_tensors), list(expected))


@pytest.mark.parametrize("name", ["IMPALA", "IMPALA with GAE"])
def test_masked_rows_are_as_rows_left_out(name: str) -> None:
    case, distribution = CASES[name], Categorical(3)
    for k in MEMBERS:
        output, batch = experience(case, distribution, k)
        output.dist_inputs[:-1][~batch["valid"]] = torch.nan  # what nobody may look at
        loss, metrics = impala_loss(output, batch, distribution, case.members[k])
        left_out = case.members[k]._replace(masked=False)
        expected, found = impala_loss(output, batch, distribution, left_out)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(metrics, found)


def test_a_weight_of_zero_leaves_a_term_out_and_a_tensor_never_does() -> None:
    output, batch = experience(CASES["A2C"], Categorical(3), 0)
    output = ModuleOutput(output.dist_inputs, output.values.requires_grad_())
    without = a2c_loss(output, batch, Categorical(3), A2CCoefficients(0.0, 0.0))[0]
    assert not without.requires_grad  # nothing of the values is in it
    loss = a2c_loss(output, batch, Categorical(3), A2CCoefficients(torch.tensor(0.0), 0.0))[0]
    assert loss.requires_grad
    torch.testing.assert_close(loss, without)
