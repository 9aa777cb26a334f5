"""Exploration by noise on the parameters of the network (Plappert et al., 2018, 1706.01905)."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.distributions.build import (
    Categorical,
    DiagGaussian,
    Distribution,
    SquashedGaussian,
)
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.networks.modules import PolicyModule
from trainables.core.policy.explorers.explorers import Explorer, SlotState, normal

_FACTOR = 1.01  # of one adaptation, alpha of appendix C
_TARGET_STDDEV = 0.2  # the distance aimed at, where actions are continuous
_TARGET_EPSILON = 0.1  # where they are discrete: that of epsilon-greedy with this epsilon
_UNDRAWN = -1


class ParameterNoise(Explorer):
    """Acts with a copy of the network, `theta + sigma x N(0, 1)`; the learner's is never touched.

    The noise is drawn anew when slot 0 begins an episode, for all slots of an env runner together:
    within an episode a state has the same action. Where weights change meanwhile, the noise stays.
    Sigma is steered to a distance between the actions with noise and without (eq. 8): what noise
    means for actions depends on the network and changes as it learns.

    Attributes:
        stddev: Sigma.
    """

    def __init__(self, settings: ExplorationConfig, distribution: Distribution):
        super().__init__(settings, distribution)
        self.stddev = settings.initial_stddev
        given = settings.target_distance
        self.target_distance = default_target(distribution) if given is None else given
        self._copy: PolicyModule | None = None
        self._noise: tuple[int, list[Tensor]] = (_UNDRAWN, [])

    def initial_values(self) -> dict[str, Any]:
        return {"stddev": self.settings.initial_stddev}

    def set(self, values: dict[str, Any]) -> None:
        super().set(values)
        self.stddev = float(values.get("stddev", self.stddev))

    def start(self, num_slots: int) -> SlotState:
        # The noise itself is as large as the network; it can be drawn again from its seed.
        return {"seed": torch.full((1,), _UNDRAWN)}

    def restart(self, slots: SlotState, begins: np.ndarray) -> None:
        if begins[0]:
            slots["seed"].fill_(_UNDRAWN)

    def module(
        self,
        module: PolicyModule,
        generator: torch.Generator | None,
        slots: SlotState | None,
    ) -> PolicyModule:
        if self.uniform:
            return module
        kept = self.start(1) if slots is None else slots
        if kept["seed"].item() == _UNDRAWN:
            kept["seed"].fill_(_draw_seed(generator))
        seed = int(kept["seed"].item())
        if self._noise[0] != seed:
            own = torch.Generator(_device(module)).manual_seed(seed)
            self._noise = seed, _draw_noise(module, own)
        return self._noisy(module, self._noise[1])

    @torch.inference_mode()
    def adapted(self, module: PolicyModule, features: Any, generator: torch.Generator) -> float:
        """Sigma, a little greater if actions with noise are too close, else a little less.

        Args:
            module: The learner's network.
            features: Of replayed observations, `[B, …]`.
            generator: Random stream of the noise, which is drawn for this comparison.
        """
        noisy = self._noisy(module, _draw_noise(module, generator))
        clean, perturbed = module.dist_inputs(features), noisy.dist_inputs(features)
        is_close = action_distance(self.distribution, clean, perturbed) <= self.target_distance
        return self.stddev * (_FACTOR if is_close else 1 / _FACTOR)

    @torch.inference_mode()
    def _noisy(self, module: PolicyModule, noise: list[Tensor]) -> PolicyModule:
        if self._copy is None:
            self._copy = copy.deepcopy(module).requires_grad_(False)
        for mine, theirs, epsilon in zip(
            self._copy.acting_parameters(), module.acting_parameters(), noise, strict=True
        ):
            torch.add(theirs, epsilon, alpha=self.stddev, out=mine)
        for own, buffer in zip(self._copy.buffers(), module.buffers(), strict=True):
            own.copy_(buffer)
        return self._copy


def action_distance(distribution: Distribution, clean: Tensor, noisy: Tensor) -> float:
    """How far actions are from another, by the inputs of their distributions, `[B, num_inputs]`.

    Continuous: the root mean square of the difference of the most likely actions (eq. 9), where
    they are learned. Discrete: KL(clean || noisy) in nats, action values by their softmax (App. C).
    """
    if isinstance(distribution, DiagGaussian):
        modes = [distribution.mode(inputs) for inputs in (clean, noisy)]
        if isinstance(distribution, SquashedGaussian):
            modes = [mode.tanh() for mode in modes]
        return (modes[0] - modes[1]).square().mean().sqrt().item()
    if isinstance(distribution, EpsilonGreedy):
        distribution = Categorical(distribution.num_inputs)
    return distribution.kl(clean, noisy).mean().item()


def default_target(distribution: Distribution) -> float:
    """The distance that sigma is steered to: `-log(1 - epsilon + epsilon / |A|)` (App. C)."""
    if isinstance(distribution, DiagGaussian):
        return _TARGET_STDDEV
    num_actions = max(2, distribution.num_inputs)
    return -math.log(1 - _TARGET_EPSILON + _TARGET_EPSILON / num_actions)


def _draw_noise(module: PolicyModule, generator: torch.Generator | None) -> list[Tensor]:
    return [normal(p.shape, p, generator) for p in module.acting_parameters()]


def _draw_seed(generator: torch.Generator | None) -> int:
    device = "cpu" if generator is None else generator.device
    return int(torch.randint(2**62, (1,), generator=generator, device=device).item())


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device
