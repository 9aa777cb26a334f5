"""Dreams: the actor acts in the world model, from states that it was really in."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainables.core.distributions.base import Distribution
from trainables.core.learning.returns import lambda_return
from trainables.core.networks.world_model.dreamer import Dreamer
from trainables.core.networks.world_model.latents import Drawn, stacked
from trainables.core.networks.world_model.rssm import Latent


class Dream(NamedTuple):
    """What was dreamed from N states over H steps, without gradients.

    Attributes:
        states: The model's features, `[H+1, N, …]`; the first are those that it began in.
        actions: `[H, N, …]`.
        masks: Which actions were allowed, `[H, N, num_mask]`; None: all.
        rewards: Of each action, `[H, N]`.
        discounts: gamma times the probability that no terminal state was reached, `[H, N]`.
    """

    states: Drawn
    actions: Tensor
    masks: Tensor | None
    rewards: Tensor
    discounts: Tensor


@torch.no_grad()
def dream(
    module: Dreamer,
    start: Latent,
    horizon: int,
    distribution: Distribution,
    generator: torch.Generator | None,
) -> Dream:
    """Let the actor act for some steps of which nothing is seen.

    Args:
        module: World model and actor.
        start: States, `[N, …]`.
        horizon: Steps H.
        distribution: Of the actions.
        generator: Random stream, on the module's device.
    """
    states = [Drawn(start.h.detach(), start.z.argmax(-1), start.z.shape[-1])]
    shape = (horizon, *start.z.shape[:-1])
    noise = torch.rand(shape, generator=generator, device=start.h.device)
    actions: list[Tensor] = []
    masks: list[Tensor | None] = []
    for t in range(horizon):
        masks.append(module.decoder.mask(states[-1]))
        actions.append(distribution.sample(module.actor(states[-1], masks[-1]), generator))
        done = distribution.encode(actions[-1])
        states.append(module.rssm.dream_on(states[-1], done, noise[t]))
    path = stacked(states)
    arrived = path.rows(slice(1, None))
    rewards = module.reward.mean(module.reward(arrived))
    discounts = module.continuation(arrived).squeeze(-1).sigmoid()
    allowed = None if masks[0] is None else torch.stack([m for m in masks if m is not None])
    return Dream(path, torch.stack(actions), allowed, rewards, discounts)


def dream_weights(begins: Tensor, discounts: Tensor) -> Tensor:
    """Return how much each dreamed step counts: as it is likely to be reached, `[H, N]`.

    Args:
        begins: The weight of the states that dreams began in, `[N]`: 0 of terminal ones.
        discounts: gamma times the probability that the episode went on, `[H, N]`.
    """
    return torch.cat([begins.unsqueeze(0), discounts[:-1]]).cumprod(0)


def dream_returns(dreamed: Dream, values: Tensor, lambda_: float) -> Tensor:
    """Return the lambda-returns of the dreamed steps, `[H, N]`.

    Args:
        dreamed: What was dreamed.
        values: What the critic says of its states, `[H+1, N]`.
        lambda_: Weight of longer returns.
    """
    runs_on = torch.ones_like(dreamed.rewards, dtype=torch.bool)
    return lambda_return(dreamed.rewards, values[1:], dreamed.discounts, runs_on, lambda_)
