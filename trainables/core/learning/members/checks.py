"""Whether what is computed for K members at once is what each computes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainables.core.data.batch import Batch
from trainables.core.learning.members.lifted_module import NotLiftedError
from trainables.core.learning.members.request import Request

_LEAST_AGREEMENT = 0.5  # of rows


def check_lifted(lifted: nn.Module, modules: Sequence[nn.Module], features: Any, of: Any) -> None:
    """Compare what a lifted network says of some rows with what each network says itself.

    Args:
        lifted: Of `LiftedModule`, bound.
        modules: The networks, `K` of them.
        features: Rows `[K, B, …]`, a tensor or a dict of them.
        of: Takes one member's rows out of `features`, by its number.

    Raises:
        NotLiftedError: if they differ by more than rounding, or it cannot be computed.
    """
    with torch.no_grad():
        try:
            found = _flat(lifted(features))
        except Exception as error:
            raise NotLiftedError(f"its network cannot be computed for several: {error}") from error
        for number, module in enumerate(modules):
            for together, alone in zip(found, _flat(module(of(features, number))), strict=True):
                own = together[number] if together.dim() else together
                if own.shape != alone.shape or not torch.allclose(
                    own, alone, rtol=1e-3, atol=1e-4, equal_nan=True
                ):
                    raise NotLiftedError("its network mixes what is of several members")


def _flat(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)


def check_loss(loss_fn: Any, module: nn.Module, batch: Batch, requests: Sequence[Request]) -> None:
    """Compare what the loss of all members says with what each one's own says.

    Of rows it is compared where losses report some, and most must agree: where two actions are as
    good as each other, rounding decides which of them a target is of.

    Args:
        loss_fn: Of all members.
        module: Their network.
        batch: Rows `[K, B, …]`.
        requests: Of each.

    Raises:
        NotLiftedError: if they differ by more than rounding, or the loss cannot be computed.
    """
    with torch.no_grad():
        try:
            loss, found = loss_fn(module, batch)
        except Exception as error:
            raise NotLiftedError(f"its loss cannot be computed for several: {error}") from error
        for number, request in enumerate(requests):
            own: Any = request.loss_fn
            alone, expected = own(request.learner.module, request.batch)
            ours, theirs = loss[number], alone
            if "priorities" in expected:
                theirs = expected["priorities"]
                ours = found["priorities"][number, : len(theirs)]
            is_close = torch.isclose(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
            if is_close.double().mean() <= _LEAST_AGREEMENT:
                raise NotLiftedError("its loss mixes what is of several members")
