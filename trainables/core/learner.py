"""`Learner`: the networks of one module, their optimiser and one gradient step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trainables.core.batch import Batch, minibatches
from trainables.core.flat_parameters import FlatParameters
from trainables.core.model_config import OptimizerConfig

Metrics = dict[str, Tensor]
LossFn = Callable[[Any, Batch], tuple[Tensor, Metrics]]
"""From the module's output and a minibatch to the scalar loss and detached scalars to report."""


class Learner:
    """Updates one module by gradient steps on a loss.

    Args:
        module: The networks; called with a minibatch's `features`.
        optimizer: The `optimizer` dict of the config.
        grad_clip: Bound of the gradients, None for none.
        grad_clip_by: "value", "norm" or "global_norm".
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: dict[str, Any],
        grad_clip: float | None = None,
        grad_clip_by: str = "global_norm",
    ):
        self.module = module
        self.flat = FlatParameters(module)
        self.gradient = self.flat.gradient
        self.optimizer = make_optimizer(self.flat.vector, optimizer)
        self._type = type(self.optimizer).__name__
        self._grad_clip, self._grad_clip_by = grad_clip, grad_clip_by

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of the steps to come."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def update_step(self, batch: Batch, loss_fn: LossFn) -> Metrics:
        """One gradient step on one minibatch; returns scalars that stay on the device."""
        loss, metrics = loss_fn(self.module(batch["features"]), batch)
        self.gradient.zero_()
        loss.backward()
        metrics["grad_norm"] = self._clip_gradients()
        self.optimizer.step()
        return metrics

    def update(
        self,
        batch: Batch,
        loss_fn: LossFn,
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        generator: torch.Generator | None = None,
    ) -> dict[str, float]:
        """Several epochs of minibatch steps.

        Args:
            batch: Columns `[B, …]`; `features` is what the module is called with.
            loss_fn: The loss.
            num_epochs: Passes over the rows.
            minibatch_size: Rows of a gradient step at most; None takes all.
            generator: CPU generator of the permutations; None keeps the order.

        Returns:
            Means of the reported scalars over all gradient steps.
        """
        steps = [
            self.update_step(minibatch, loss_fn)
            for minibatch in minibatches(batch, num_epochs, minibatch_size, generator)
        ]
        # One transfer at the end: an .item() per step would wait for the device each time.
        scalars = torch.stack([scalar for step in steps for scalar in step.values()])
        means = scalars.view(len(steps), -1).mean(0)
        return dict(zip(steps[0], means.tolist(), strict=True))

    def _clip_gradients(self) -> Tensor:
        """Clip in place; returns the global norm before clipping."""
        norm = torch.linalg.vector_norm(self.gradient)
        bound = self._grad_clip
        if bound is None:
            return norm
        if self._grad_clip_by == "value":
            self.gradient.clamp_(-bound, bound)
        elif self._grad_clip_by == "norm":
            for parameter in self.flat.parameters:
                nn.utils.clip_grad_norm_([parameter], bound)
        else:
            self.gradient.mul_((bound / (norm + 1e-6)).clamp_max(1.0))
        return norm

    def get_state(self) -> dict[str, Any]:
        """What the optimiser has learned. Rates and the like are settings, not state."""
        moments = copy.deepcopy(self.optimizer.state_dict()["state"])
        return {"type": self._type, "moments": moments}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s; this learner's own settings stay.

        Another kind of optimiser starts without moments: they mean something else to it.
        """
        if state["type"] != self._type:
            return
        groups = self.optimizer.state_dict()["param_groups"]
        moments = copy.deepcopy(state["moments"])
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def make_optimizer(vector: nn.Parameter, settings: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimiser that the `optimizer` dict of a config describes, fused into one kernel."""
    parameters = [vector]
    options = OptimizerConfig(**OptimizerConfig.check(settings))
    decay = options.weight_decay
    betas = (options.beta1, options.beta2)
    if options.type == "adam":
        return torch.optim.Adam(
            parameters, betas=betas, eps=options.eps, weight_decay=decay, fused=True
        )
    if options.type == "adamw":
        return torch.optim.AdamW(
            parameters, betas=betas, eps=options.eps, weight_decay=decay, fused=True
        )
    if options.type == "rmsprop":
        return torch.optim.RMSprop(
            parameters,
            alpha=options.decay,
            eps=options.eps,
            momentum=options.momentum,
            weight_decay=decay,
            foreach=True,
        )
    return torch.optim.SGD(parameters, momentum=options.momentum, weight_decay=decay, fused=True)
