"""Noisy linear layers (Fortunato et al., 2018, arXiv 1706.10295)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class NoisyLinear(nn.Module):
    """`y = (mu_w + sigma_w * eps_w) x + mu_b + sigma_b * eps_b` with factorised Gaussian noise.

    `eps_w[i, j] = f(eps_out[i]) f(eps_in[j])`, `eps_b = f(eps_out)`, `f(x) = sign(x) sqrt|x|`
    (eq. 10 and 11). Without noise it is the linear layer of its means.

    Args:
        num_inputs: Width of the input.
        num_outputs: Width of the output.
        sigma0: sigma at the start is `sigma0 / sqrt(num_inputs)`.
        generator: Random stream of the initial means.
    """

    eps_in: Tensor
    eps_out: Tensor

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        sigma0: float,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        bound, sigma = 1 / math.sqrt(num_inputs), sigma0 / math.sqrt(num_inputs)
        self.weight = nn.Parameter(torch.empty(num_outputs, num_inputs))
        self.bias = nn.Parameter(torch.empty(num_outputs))
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, sigma))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, sigma))
        # Drawn anew before every use, so no part of the weights.
        self.register_buffer("eps_in", torch.zeros(num_inputs), persistent=False)
        self.register_buffer("eps_out", torch.zeros(num_outputs), persistent=False)

    def set_noise(self, generator: torch.Generator | None) -> None:
        """Draw new noise, or with None have none."""
        # In place: what sampling writes in inference mode, autograd reads in the next update.
        for noise in (self.eps_in, self.eps_out):
            if generator is None:
                noise.zero_()
                continue
            draw = torch.randn(noise.shape, generator=generator, device=generator.device)
            noise.copy_(draw.sign() * draw.abs().sqrt())

    def forward(self, x: Tensor) -> Tensor:
        """`[..., num_inputs]` to `[..., num_outputs]`."""
        weight = torch.addcmul(
            self.weight, self.weight_sigma, torch.outer(self.eps_out, self.eps_in)
        )
        return linear(x, weight, torch.addcmul(self.bias, self.bias_sigma, self.eps_out))
