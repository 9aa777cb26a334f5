"""Explorers, which turn a distribution's inputs into actions where `explore` is True.

Its values that change in a run (scale, uniform, …) are set from outside, by the algorithm, so that
env runners in other processes and resumed runs have the same. What it keeps for each slot from step
to step lies with whoever steps the slots: an evaluation does not disturb the noise of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.distributions.base import ByValue, Distribution
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.networks.modules import PolicyModule

SlotState = dict[str, Tensor]  # what is kept for each slot, by name, `[N, …]`

_NOISES = ("GaussianNoise", "OrnsteinUhlenbeckNoise", "ParameterNoise")


class Explorer:
    """Draws from the policy's distribution, or uniform ones.

    That is all there is to StochasticSampling, Random, EpsilonGreedy and SoftQ: the last two are
    properties of the distribution over action values.

    Args:
        settings: The `exploration_config`.
        distribution: The distribution of the actions.

    Attributes:
        uniform: Whether actions are drawn uniformly for now.
        is_adapted: Whether updates steer it by its method `adapted`.
    """

    is_adapted = False

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
        """Forget, in place, what is kept for the slots that begin an episode, `[N]` bool."""

    def module(
        self, module: PolicyModule, generator: torch.Generator | None, slots: SlotState | None
    ) -> PolicyModule:
        """Return the network that acts."""
        return module

    def act(
        self,
        inputs: Tensor,
        generator: torch.Generator | None = None,
        slots: SlotState | None = None,
    ) -> Tensor:
        """Return actions as the distribution stores them, `[N, …]`.

        Args:
            inputs: Inputs of the distribution, `[N, num_inputs]`.
            generator: Random stream.
            slots: The memory of these slots, changed in place; None: they are observations by
                themselves, not slots that are stepped on and on.
        """
        if self.uniform:
            return self.distribution.uniform(inputs, generator)
        return self.draw(inputs, generator, slots)

    def draw(
        self, inputs: Tensor, generator: torch.Generator | None, slots: SlotState | None
    ) -> Tensor:
        """Draw actions of this type of exploration, see `act`."""
        return self.distribution.sample(inputs, generator)


def make_explorer(
    exploration: ExplorationConfig | Mapping[str, Any],
    distribution: Distribution,
    is_recurrent: bool = False,
) -> Explorer:
    """Return the explorer of an `exploration_config`.

    Args:
        exploration: The type and its options.
        distribution: The distribution of the actions.
        is_recurrent: Whether the network that acts keeps a state.

    Raises:
        ConfigError: for options that are not allowed, or a type that these actions cannot have.
    """
    settings = ExplorationConfig.of(exploration)
    if settings.type in ("EpsilonGreedy", "SoftQ"):
        if not isinstance(distribution, ByValue):
            raise ConfigError(
                f"exploration_config: type = {settings.type!r} needs the values of discrete "
                "actions; this policy has none"
            )
        if settings.type == "SoftQ":
            distribution.temperature = settings.temperature
    if settings.type not in _NOISES:
        return Explorer(settings, distribution)
    noise: Explorer = feature("noise").explorer(settings, distribution, is_recurrent)
    return noise
