"""LaProp (Ziyin et al., 2020, arXiv 2002.04839): Adam with its two moments in the other order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class LaProp(torch.optim.Optimizer):
    """Divides the gradient by its root mean square first, and takes the mean of that.

    `v <- beta2 v + (1 - beta2) g²`,
    `m <- beta1 m + (1 - beta1) g / (sqrt(v / (1 - beta2^t)) + eps)`,
    `theta <- theta - lr m / (1 - beta1^t)`

    In Adam a large gradient divides the mean of small ones before it; here each is divided by what
    is known when it comes, so that a small eps and a large beta2 go together.

    Args:
        params: Parameters, or groups of them.
        lr: Learning rate.
        betas: Decays of the mean and of the square.
        eps: Added to the denominator.
        weight_decay: Share of a parameter that a step takes off, times the learning rate.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 4e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-20,
        weight_decay: float = 0.0,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Step by the gradients there are.

        Args:
            closure: Computes the loss anew, and the gradients; None: they are there.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, parameter.grad, group)
        return loss

    def _step(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        step, (beta1, beta2) = state["step"].item(), group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator = square.div(1 - beta2**step).sqrt_().add_(group["eps"])
        mean.mul_(beta1).addcdiv_(gradient, denominator, value=1 - beta1)
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(mean, alpha=-group["lr"] / (1 - beta1**step))
