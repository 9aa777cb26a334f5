"""Optimisers step on moments that are too small to move anything, without losing time by them."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainables.core.learning.learner import Learner
from trainables.core.learning.stepping import FlushedDenormals

_CAN_FLUSH = torch.set_flush_denormal(True)
torch.set_flush_denormal(False)
pytestmark = pytest.mark.skipif(not _CAN_FLUSH, reason="this processor cannot flush them")
_TINY = 1e-40  # of float32


def stepped(moment: float) -> tuple[Tensor, float]:
    """Return a parameter and its first moment after a step without a gradient."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.ones_(module.weight)
    learner = Learner(module, {"type": "adam", "eps": 1e-8})

    def loss_fn(module: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return (module(batch["x"]) * 0.0).sum(), {}

    learner.update_step({"x": torch.ones(1, 1)}, loss_fn)
    (state,) = learner.optimizer.state.values()
    state["exp_avg"].fill_(moment)
    state["exp_avg_sq"].fill_(1e-10)
    learner.update_step({"x": torch.ones(1, 1)}, loss_fn)
    return module.weight.detach(), state["exp_avg"].item()


def test_a_moment_that_is_denormal_becomes_0_and_others_stay() -> None:
    weight, moment = stepped(_TINY)
    assert moment == 0.0
    assert weight.item() == 1.0
    weight, moment = stepped(1e-6)
    assert moment == pytest.approx(9e-7)
    assert weight.item() < 1.0


def test_what_is_computed_outside_of_it_keeps_its_denormals() -> None:
    stepped(_TINY)
    assert np.float32(_TINY) * np.float32(1.0) > 0
    with FlushedDenormals():
        assert np.float32(_TINY) * np.float32(1.0) == 0
    assert np.float32(_TINY) * np.float32(1.0) > 0


def test_whoever_flushes_them_anyway_goes_on_doing_so() -> None:
    torch.set_flush_denormal(True)
    try:
        stepped(_TINY)
        assert np.float32(_TINY) * np.float32(1.0) == 0
    finally:
        torch.set_flush_denormal(False)
    assert np.float32(_TINY) * np.float32(1.0) > 0


def test_an_error_inside_leaves_them_as_they_were() -> None:
    with pytest.raises(ValueError, match="inside"), FlushedDenormals():
        raise ValueError("inside")
    assert np.float32(_TINY) * np.float32(1.0) > 0
