"""Whether a loss of K members at once is what each one's own is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from trainables.core.data.batch import Batch
from trainables.core.learning.members.company import NotTogetherError
from trainables.core.learning.members.request import LearnerRequest

_LEAST_AGREEMENT = 0.5  # of rows


def check_loss(
    loss_fn: Any, module: nn.Module, batch: Batch, requests: Sequence[LearnerRequest]
) -> None:
    """Compare what the loss of all members says with what each one's own says.

    Of rows it is compared where losses report some, and most must agree: where two actions are as
    good as each other, rounding decides which of them a target is of.

    Args:
        loss_fn: Of all members.
        module: Their network.
        batch: Rows `[K, B, …]`.
        requests: Of each.

    Raises:
        NotTogetherError: if they differ by more than rounding, or the loss cannot be computed.
    """
    with torch.no_grad():
        try:
            loss, found = loss_fn(module, batch)
        except Exception as error:
            raise NotTogetherError(f"its loss cannot be computed for several: {error}") from error
        for number, request in enumerate(requests):
            own: Any = request.loss_fn
            alone, expected = own(request.learner.module, request.batch)
            ours, theirs = loss[number], alone
            if "priorities" in expected:
                theirs = expected["priorities"]
                ours = found["priorities"][number, : len(theirs)]
            is_close = torch.isclose(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
            if is_close.double().mean() <= _LEAST_AGREEMENT:
                raise NotTogetherError("its loss mixes what is of several members")
