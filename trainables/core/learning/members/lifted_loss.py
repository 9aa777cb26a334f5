"""One loss for several members, of losses that each has for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from trainables.core.learning.learner import Learner


def lifts(function: Any) -> Any:
    """Mark a loss that is one for several members, too, where rows and outputs are `[K, B, …]`.

    It takes means over rows by `row_mean`, and coefficients that may be `[K]`, which meet rows by
    `of_rows`; it returns the loss of each, `[K]`. A network among its arguments is a target network
    of the learner's; the other ones are alike for all members.
    """
    function.lifts = True
    return function


def why_loss_not_lifted(loss: Any, learner: Learner) -> str | None:
    """Return why a loss is one learner's alone; None if it is not."""
    if not (isinstance(loss, partial) and not loss.args and getattr(loss.func, "lifts", False)):
        return "its loss is not written for several members"
    for value in loss.keywords.values():
        if isinstance(value, nn.Module) and target_name(value, learner) is None:
            return f"its loss takes a {type(value).__name__} that is no target network"
    return None


def loss_key(loss: Any, learner: Learner) -> tuple[Any, ...]:
    """Return what of losses must be equal that are one for their members."""
    kinds = ((name, _kind(value, learner)) for name, value in loss.keywords.items())
    return (loss.func, *kinds)


def target_name(network: nn.Module, learner: Learner) -> str | None:
    """Return the group whose target network it is; None: of none."""
    found = (name for name, one in learner.targets.items() if one.network is network)
    return next(found, None)


def lifted_loss(
    losses: list[Any],
    lifted: Callable[[nn.Module], nn.Module],
    dtype: torch.dtype,
    device: torch.device,
) -> Any:
    """Return the loss of all members.

    Args:
        losses: Each one's, with equal keys.
        lifted: Returns the network of all members by the first one's.
        dtype: Of coefficients that differ.
        device: Where these are.
    """

    def together(values: list[Any]) -> Any:
        first = values[0]
        if isinstance(first, nn.Module):
            return lifted(first)
        if isinstance(first, tuple):
            parts = (together(list(part)) for part in zip(*values, strict=True))
            return type(first)(*parts)
        if isinstance(first, Tensor):
            return torch.stack(values)
        if isinstance(first, (int, float)) and any(value != first for value in values):
            return torch.tensor(values, dtype=dtype, device=device)
        return first

    keywords: Mapping[str, Any] = losses[0].keywords
    return partial(
        losses[0].func, **{n: together([loss.keywords[n] for loss in losses]) for n in keywords}
    )


def _kind(value: Any, learner: Learner) -> Any:
    """Return what of a loss's argument must be alike: of coefficients, which of them are there."""
    if isinstance(value, tuple):
        return type(value), tuple(_kind(part, learner) for part in value)
    if isinstance(value, nn.Module):
        return target_name(value, learner)
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return "off" if value == 0 else "number"
    return type(value)
