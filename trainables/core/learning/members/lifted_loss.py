"""One loss for several members, of losses that each has for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trainables.core.callables import callable_name
from trainables.core.data.batch import Batch
from trainables.core.learning.members.company import NotTogetherError

if TYPE_CHECKING:
    from trainables.core.learning.learner import Learner


LIFTED: dict[str, tuple[str, ...]] = {
    "trainables.dqn:dqn_loss": (),
    "trainables.ppo:_loss": ("clip", "value_clip"),
    "trainables.sac:discrete_sac_loss": ("target_entropy",),
    "trainables.sac:sac_loss": ("target_entropy",),
}
"""Losses that are those of several members, too, where rows and outputs are `[K, B, …]`.

They take means over rows by `mean(-1)`, and return the loss of each, `[K]`. With each are its
coefficients that meet rows: those of members, `[K]`, do so as `[K, 1]`. A network among a loss's
arguments is a target network of the learner's; the other ones are alike for all members.
"""

ROW_SHARES = "row_shares"
"""The column of what each row counts in a mean, `[K, B]`: members may have fewer rows than B."""


class _MeansOfMembers(TorchFunctionMode):
    """Makes means over rows count each row by its share.

    Args:
        shares: `[K, B]`.
    """

    def __init__(self, shares: Tensor):
        super().__init__()
        self._shares = shares

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is not Tensor.mean or kwargs or args[1:] != (-1,):
            return func(*args, **(kwargs or {}))
        rows, shares = args[0], self._shares
        if (len(rows), rows.shape[-1]) != shares.shape:
            raise NotTogetherError("its loss takes a mean that is not over rows")
        while shares.dim() < rows.dim():
            shares = shares.unsqueeze(1)
        return (rows * shares).sum(-1)


def why_loss_not_lifted(loss: Any, learner: Learner) -> str | None:
    """Return why a loss is one learner's alone; None if it is not."""
    if not (isinstance(loss, partial) and not loss.args and callable_name(loss.func) in LIFTED):
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
    meet_rows = LIFTED[callable_name(losses[0].func)]

    def together(name: str, values: list[Any]) -> Any:
        first = values[0]
        if isinstance(first, nn.Module):
            return lifted(first)
        if isinstance(first, tuple):
            columns = zip(_names(first), zip(*values, strict=True), strict=True)
            return type(first)(*(together(part, list(column)) for part, column in columns))
        if isinstance(first, Tensor):
            found = torch.stack(values)
        elif isinstance(first, (int, float)) and any(value != first for value in values):
            found = torch.tensor(values, dtype=dtype, device=device)
        else:
            return first
        return found.unsqueeze(-1) if name in meet_rows else found

    keywords: Mapping[str, Any] = losses[0].keywords
    loss = partial(
        losses[0].func, **{n: together(n, [loss.keywords[n] for loss in losses]) for n in keywords}
    )

    def of_members(module: nn.Module, batch: Batch) -> Any:
        rows = {name: column for name, column in batch.items() if name != ROW_SHARES}
        if (shares := batch.get(ROW_SHARES)) is None:
            return loss(module, rows)
        with _MeansOfMembers(shares):
            return loss(module, rows)

    return of_members


def _names(values: tuple[Any, ...]) -> Sequence[str]:
    return getattr(values, "_fields", ("",) * len(values))


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
