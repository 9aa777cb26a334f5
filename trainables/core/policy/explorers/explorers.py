"""What `explore=True` does: an `Explorer` turns a distribution's inputs into actions.

Its values that change in a run (scale, uniform, …) are set from outside, by the algorithm, so that
env runners in other processes and resumed runs have the same. What it keeps for each slot from step
to step lies with whoever steps the slots: an evaluation does not disturb the noise of training.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.distributions.build import DiagGaussian, Distribution, SquashedGaussian
from trainables.core.errors import ConfigError
from trainables.core.networks.modules import PolicyModule

SlotState = dict[str, Tensor]  # what is kept for each slot, by name, `[N, …]`


class Explorer:
    """Draws actions from the policy's distribution, or uniformly.

    That is all there is to StochasticSampling, Random, EpsilonGreedy and SoftQ: the last two are
    properties of the distribution over action values.

    Args:
        settings: The `exploration_config`.
        distribution: Of the actions.

    Attributes:
        uniform: Whether actions are drawn uniformly for now.
    """

    def __init__(self, settings: ExplorationConfig, distribution: Distribution):
        self.settings, self.distribution = settings, distribution
        self.uniform = settings.type == "Random"

    def initial_values(self) -> dict[str, Any]:
        """Return the values that `set` is given first, where the algorithm schedules none."""
        return {}

    def set(self, values: dict[str, Any]) -> None:
        """Take over the present values."""
        self.uniform = bool(values.get("uniform", self.uniform))

    def start(self, num_slots: int) -> SlotState:
        """Return what is kept for slots that all begin an episode; empty if nothing is."""
        return {}

    def restart(self, slots: SlotState, begins: np.ndarray) -> None:
        """Forget what is kept for the slots that begin an episode, `[N]` bool; in place."""

    def module(
        self,
        module: PolicyModule,
        generator: torch.Generator | None,
        slots: SlotState | None,
    ) -> PolicyModule:
        """Return the network that acts."""
        return module

    def act(
        self,
        inputs: Tensor,
        generator: torch.Generator | None = None,
        slots: SlotState | None = None,
    ) -> Tensor:
        """Actions as the distribution stores them, `[N, …]`.

        Args:
            inputs: Of the distribution, `[N, num_inputs]`.
            generator: Random stream.
            slots: What is kept for these slots; changed in place. None: they are no slots that
                are stepped on and on, but observations by themselves.
        """
        if self.uniform:
            return self.distribution.uniform(inputs, generator)
        return self.draw(inputs, generator, slots)

    def draw(
        self, inputs: Tensor, generator: torch.Generator | None, slots: SlotState | None
    ) -> Tensor:
        """Actions of this type of exploration, see `act`."""
        return self.distribution.sample(inputs, generator)


class GaussianNoise(Explorer):
    """Adds `scale x N(0, stddev^2)` to each element of the action, and clips.

    Raises:
        ConfigError: if actions are not continuous.
    """

    distribution: DiagGaussian

    def __init__(self, settings: ExplorationConfig, distribution: Distribution):
        if not isinstance(distribution, DiagGaussian):
            raise ConfigError(
                f"exploration_config: type = {settings.type!r} adds noise to continuous actions; "
                "this action space has none"
            )
        super().__init__(settings, distribution)
        self.scale = settings.initial_scale

    def set(self, values: dict[str, Any]) -> None:
        super().set(values)
        self.scale = float(values.get("scale", self.scale))

    def draw(
        self, inputs: Tensor, generator: torch.Generator | None, slots: SlotState | None
    ) -> Tensor:
        if self.settings.base == "mode":
            actions = self.distribution.mode(inputs)
        else:
            actions = self.distribution.sample(inputs, generator)
        return self._shifted(actions, self.scale * self.noise(actions, generator, slots))

    def noise(
        self, actions: Tensor, generator: torch.Generator | None, slots: SlotState | None
    ) -> Tensor:
        """Noise of scale 1, `[N, *action_shape]`."""
        return self.settings.stddev * normal(actions.shape, actions, generator)

    def _shifted(self, actions: Tensor, noise: Tensor) -> Tensor:
        """Stored actions with noise added in the space that they are learned in."""
        if not isinstance(self.distribution, SquashedGaussian):
            return actions + noise  # clipped to the bounds on the way to the environment
        limit = 1 - torch.finfo(actions.dtype).eps  # stored before tanh; atanh is finite inside
        return (actions.tanh() + noise).clamp_(-limit, limit).atanh()


class OrnsteinUhlenbeckNoise(GaussianNoise):
    """Adds noise that pulls one way for a while (Uhlenbeck and Ornstein, 1930).

    `x <- x - theta x dt + sigma sqrt(dt) N(0, 1)`, from 0 at the start of an episode; steps k apart
    are correlated by `(1 - theta dt)^k`. It explores what only many like actions in a row reach.
    """

    def start(self, num_slots: int) -> SlotState:
        return {"x": torch.zeros((num_slots, *self.distribution.action_shape))}

    def restart(self, slots: SlotState, begins: np.ndarray) -> None:
        if begins.any():
            slots["x"][torch.from_numpy(begins)] = 0

    @property
    def stationary_stddev(self) -> float:
        """Of x in the long run: `sigma / sqrt(theta (2 - theta dt))`."""
        theta, dt = self.settings.ou_theta, self.settings.ou_dt
        return self.settings.ou_sigma / math.sqrt(theta * (2 - theta * dt))

    def noise(
        self, actions: Tensor, generator: torch.Generator | None, slots: SlotState | None
    ) -> Tensor:
        settings = self.settings
        if slots is None:  # any step of any episode
            x = self.stationary_stddev * normal(actions.shape, actions, generator)
        else:
            # The same tensor at all times, wherever actions are: acting runs in inference mode, and
            # what is made there could not be set to 0 outside of it.
            x = slots["x"]
            step = normal(x.shape, x, generator)
            x.mul_(1 - settings.ou_theta * settings.ou_dt)
            x.add_(step, alpha=settings.ou_sigma * math.sqrt(settings.ou_dt))
            x = x.to(actions)
        # The reference's factor is the width of the range; where there is no range, 1.
        width = 2 if isinstance(self.distribution, SquashedGaussian) else 1
        return settings.ou_base_scale * width * x


def normal(shape: torch.Size, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard normal noise, on the device and of the dtype of a tensor.

    It is drawn where the generator is, which may be elsewhere.
    """
    device = like.device if generator is None else generator.device
    return torch.randn(shape, generator=generator, device=device, dtype=like.dtype).to(like.device)
