"""Explorers that add noise: to actions, or to the parameters of the network."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.distributions.base import ByValue, Distribution
from trainables.core.distributions.gaussian import DiagGaussian, SquashedGaussian
from trainables.core.errors import ConfigError
from trainables.core.features import Feature
from trainables.core.networks.modules import PolicyModule
from trainables.core.policy.explorers import Explorer, SlotState

_FACTOR = 1.01  # of one adaptation of parameter noise, alpha of appendix C
_TARGET_STDDEV = 0.2  # the distance aimed at, where actions are continuous
_TARGET_EPSILON = 0.1  # where they are discrete: that of epsilon-greedy with this epsilon
_UNDRAWN = -1


class GaussianNoise(Explorer):
    """Noise `scale x N(0, stddev^2)` on each element of the action, which is clipped.

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
        """Draw noise of scale 1, `[N, *action_shape]`."""
        return self.settings.stddev * normal(actions.shape, actions, generator)

    def _shifted(self, actions: Tensor, noise: Tensor) -> Tensor:
        """Return stored actions with noise added in the space that they are learned in."""
        if not isinstance(self.distribution, SquashedGaussian):
            return actions + noise  # clipped to the bounds on the way to the environment
        limit = 1 - torch.finfo(actions.dtype).eps  # stored before tanh; atanh is finite inside
        return (actions.tanh() + noise).clamp_(-limit, limit).atanh()


class OrnsteinUhlenbeckNoise(GaussianNoise):
    """Noise that pulls one way for a while (Uhlenbeck and Ornstein, 1930).

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
        """Standard deviation of x in the long run: `sigma / sqrt(theta (2 - theta dt))`."""
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


class ParameterNoise(Explorer):
    """Noise on the parameters (Plappert et al., 2018, 1706.01905): `theta + sigma x N(0, 1)`.

    A copy of the network acts with it; the learner's is never touched.

    The noise is drawn anew when slot 0 begins an episode, for all slots of an env runner together:
    within an episode a state has the same action. Where weights change meanwhile, the noise stays.
    Sigma is steered to a distance between the actions with noise and without (eq. 8): what noise
    means for actions depends on the network and changes as it learns.

    Attributes:
        stddev: The standard deviation sigma.
    """

    is_adapted = True

    def __init__(self, settings: ExplorationConfig, distribution: Distribution):
        super().__init__(settings, distribution)
        self.stddev = settings.initial_stddev
        given = settings.target_distance
        self.target_distance = default_target(distribution) if given is None else given
        self._copy: PolicyModule | None = None
        self._noise: tuple[int, list[Tensor]] = (_UNDRAWN, [])  # its seed, and what it drew

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
        self, module: PolicyModule, generator: torch.Generator | None, slots: SlotState | None
    ) -> PolicyModule:
        if self.uniform:
            return module
        kept = self.start(1) if slots is None else slots
        if kept["seed"].item() == _UNDRAWN:
            device = "cpu" if generator is None else generator.device
            kept["seed"].copy_(torch.randint(2**62, (1,), generator=generator, device=device))
        seed = int(kept["seed"].item())
        if self._noise[0] != seed:
            own = torch.Generator(next(module.parameters()).device).manual_seed(seed)
            self._noise = seed, _draw_noise(module, own)
        return self._noisy(module, self._noise[1])

    @torch.inference_mode()
    def adapted(
        self,
        module: PolicyModule,
        features: Any,
        generator: torch.Generator,
        gather: Callable[[Tensor], list[Tensor]] | None = None,
    ) -> float:
        """Return a greater sigma if actions with noise are too close to those without, else a less.

        Args:
            module: The learner's network.
            features: Features of replayed observations, `[B, …]`.
            generator: Random stream of the noise, which is drawn for this comparison.
            gather: Returns the rows of all learners for those of this one; None if it is alone.
        """
        noisy = self._noisy(module, _draw_noise(module, generator))
        clean, perturbed = module.dist_inputs(features), noisy.dist_inputs(features)
        if gather is not None:
            clean, perturbed = torch.cat(gather(clean)), torch.cat(gather(perturbed))
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
    """Return how far actions are apart, by the inputs of their distributions, `[B, num_inputs]`.

    Continuous: the root mean square of the difference of the most likely actions (eq. 9), where
    they are learned. Discrete: KL(clean || noisy) in nats, action values by their softmax (App. C).
    """
    if isinstance(distribution, DiagGaussian):
        modes = [distribution.mode(inputs) for inputs in (clean, noisy)]
        if isinstance(distribution, SquashedGaussian):
            modes = [mode.tanh() for mode in modes]
        return (modes[0] - modes[1]).square().mean().sqrt().item()
    if isinstance(distribution, ByValue):
        distribution = distribution.as_logits()
    return distribution.kl(clean, noisy).mean().item()


def default_target(distribution: Distribution) -> float:
    """Return the distance to steer sigma to: `-log(1 - epsilon + epsilon / |A|)` (App. C)."""
    if isinstance(distribution, DiagGaussian):
        return _TARGET_STDDEV
    num_actions = max(2, distribution.num_inputs)
    return -math.log(1 - _TARGET_EPSILON + _TARGET_EPSILON / num_actions)


def _draw_noise(module: PolicyModule, generator: torch.Generator | None) -> list[Tensor]:
    return [normal(p.shape, p, generator) for p in module.acting_parameters()]


def normal(shape: torch.Size, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw standard normal noise, on the device and of the dtype of a tensor.

    It is drawn where the generator is, which may be elsewhere.
    """
    device = like.device if generator is None else generator.device
    return torch.randn(shape, generator=generator, device=device, dtype=like.dtype).to(like.device)


class Noise(Feature):
    """Makes the explorers that add noise."""

    def explorer(
        self, settings: ExplorationConfig, distribution: Distribution, is_recurrent: bool
    ) -> Explorer:
        """Return the explorer of a type of noise; see `make_explorer`.

        Raises:
            ConfigError: for a type that these actions, or this network, cannot have.
        """
        if settings.type != "ParameterNoise":
            other = settings.type == "OrnsteinUhlenbeckNoise"
            return (OrnsteinUhlenbeckNoise if other else GaussianNoise)(settings, distribution)
        if is_recurrent:
            raise ConfigError(
                "exploration_config: type = 'ParameterNoise' compares actions on single replayed "
                "observations; a recurrent model acts on sequences; use another type"
            )
        return ParameterNoise(settings, distribution)


FEATURE = Noise()
