"""The losses of world model, actor and critic: what each is, and of which parameters.

| loss | moves |
|---|---|
| decoder, reward, continuation | encoder, RSSM, and the part that it is called after |
| dynamics | encoder and RSSM: what comes next becomes like what is seen |
| representation | encoder and RSSM: what is seen becomes like what was expected |
| policy | actor |
| critic | critic |
| replay_critic | critic, encoder and RSSM |
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import PREV_ACTION
from trainables.core.distributions.base import Distribution
from trainables.core.learning.learner import Metrics
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.learning.returns import lambda_return
from trainables.core.networks.world_model.dreamer import Dreamer
from trainables.core.networks.world_model.latents import Drawn, entropy, kl
from trainables.core.networks.world_model.rssm import Latent, Observed
from trainables.core.networks.world_model.two_hot import TwoHotHead
from trainables.dreamerv3.dreaming import Dream, dream, dream_returns, dream_weights
from trainables.dreamerv3.return_range import return_scale, update_return_range


class Coefficients(NamedTuple):
    """The numbers in the losses; see the settings of the same names.

    Attributes:
        gamma: Discount factor.
        lambda_: Weight of longer returns.
        horizon: Steps of a dream.
        entropy_scale: Weight of the actor's entropy.
        free_nats: What divergences below count as, nats.
        dynamics: Weight of the dynamics' loss.
        representation: Weight of the representation's loss.
        replay_critic: Weight of the critic's loss on what was replayed.
        slow_critic: Weight of staying near the slow critic.
        range_decay: Decay of the percentiles of returns.
    """

    gamma: float
    lambda_: float
    horizon: int
    entropy_scale: float
    free_nats: float
    dynamics: float
    representation: float
    replay_critic: float
    slow_critic: float
    range_decay: float


def dreamer_loss(
    module: Dreamer,
    batch: Batch,
    slow_critic: TwoHotHead,
    distribution: Distribution,
    coefficients: Coefficients,
    generator: torch.Generator,
    ranks: Ranks = ALONE,
    products: torch.dtype | None = None,
) -> tuple[Tensor, Metrics]:
    """Return the sum of all losses: one backward pass and one optimiser step do for all.

    Args:
        module: Is trained.
        batch: What `world_model_losses` and `replay_critic_losses` take. The states after each row,
            as a replay buffer keeps them, are put into it as `after/h` and `after/z`, `[T, B, …]`.
        slow_critic: A slow copy of the critic.
        distribution: Of the actions.
        coefficients: The numbers in the losses.
        generator: Random stream, on the module's device.
        ranks: The learners that compute each gradient together.
        products: What products of matrices, and convolutions, are taken in; None: float32. All
            else is float32.
    """
    losses, metrics = dreamer_losses(
        module, batch, slow_critic, distribution, coefficients, generator, ranks, products
    )
    weights = {
        "dynamics": coefficients.dynamics,
        "representation": coefficients.representation,
        "replay_critic": coefficients.replay_critic,
    }
    total = torch.stack([weights.get(name, 1.0) * loss for name, loss in losses.items()]).sum()
    named = {f"{name}_loss": loss.detach() for name, loss in losses.items()}
    return total, named | metrics


def dreamer_losses(
    module: Dreamer,
    batch: Batch,
    slow_critic: TwoHotHead,
    distribution: Distribution,
    coefficients: Coefficients,
    generator: torch.Generator,
    ranks: Ranks = ALONE,
    products: torch.dtype | None = None,
) -> tuple[dict[str, Tensor], Metrics]:
    """Return each loss by name, unweighted, and what else is reported; see `dreamer_loss`."""
    reduced = partial(reduced_products, batch["rewards"].device, products)
    with reduced():
        observed = observe(module, batch, generator)
        of_rows = world_model_losses(module, batch, observed, coefficients)
    # A row of a seam, or of an environment that failed, holds an observation of no episode.
    seen = (batch["valid"] | batch["is_last"]).to(torch.float32)
    losses = {name: masked_mean(values, seen) for name, values in of_rows.items()}

    start = Latent(*(part.detach().flatten(0, 1) for part in observed.latents))
    begins = (seen * batch["continues"]).flatten()
    with reduced():
        dreamed = dream(module, start, coefficients.horizon, distribution, generator)
    with reduced():
        logits = module.critic(dreamed.states)
        acted_in = dreamed.states.rows(slice(-1))
        inputs = module.actor(acted_in, dreamed.masks)
    values = module.critic.mean(logits.detach())
    returns = dream_returns(dreamed, values, coefficients.lambda_)
    update_return_range(module.return_range, returns, coefficients.range_decay, ranks)
    advantages = (returns - values[:-1]) / return_scale(module.return_range)
    weights = dream_weights(begins, dreamed.discounts)

    logp, entropies = distribution.logp_and_entropy(inputs, dreamed.actions)
    losses["policy"] = policy_losses(
        logp, entropies, advantages, weights, coefficients.entropy_scale
    ).mean()
    with reduced():
        of_dream = critic_losses(
            module.critic, logits[:-1], returns, slow_critic, acted_in, coefficients
        )
        losses["critic"] = (weights * of_dream).mean()
        losses["replay_critic"] = replay_critic_loss(
            module, batch, observed, returns[0].view_as(seen), slow_critic, coefficients
        )
    after = module.stored(observed.latents)
    batch |= {f"after/{name}": part for name, part in after.items()}
    return losses, _metrics(observed, seen, dreamed, returns, values, entropies, module)


def reduced_products(
    device: torch.device, dtype: torch.dtype | None
) -> AbstractContextManager[Any]:
    """Return a context in which products of matrices, and convolutions, are taken in a dtype.

    Each parameter is rounded once in it, with a gradient only if that is where it is used first: a
    dream, which has none, has a context of its own.

    Args:
        device: Where they are taken.
        dtype: None: as their factors are.
    """
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


def observe(module: Dreamer, batch: Batch, generator: torch.Generator) -> Observed:
    """Run the world model over replayed sequences, from the states that were kept of them.

    Args:
        module: The world model.
        batch: features and is_first `[T, B, …]`, and the states before the first rows `[B, …]`.
        generator: Random stream, on the module's device.
    """
    features, is_first = tree_of(batch, "features"), batch["is_first"]
    state = tree_of(batch, "state")
    assert isinstance(features, dict) and isinstance(state, dict)
    shape = (*is_first.shape, module.size.stoch)
    noise = torch.rand(shape, generator=generator, device=is_first.device)
    before = module.latents_of(state)
    return module.rssm.observe(
        module.encoder(features), features[PREV_ACTION], is_first, before, noise
    )


def world_model_losses(
    module: Dreamer, batch: Batch, observed: Observed, coefficients: Coefficients
) -> dict[str, Tensor]:
    """Return the losses of each row by name, `[T, B]`.

    Args:
        module: The world model.
        batch: Columns `[T, B, …]`: features; rewards, of the action that led to a row; continues,
            whether that row is no terminal state; is_first: nothing led to it.
        observed: What the model makes of it.
        coefficients: The numbers in the losses.
    """
    states = observed.latents.features
    arrived = ~batch["is_first"]
    [rewards] = module.reward.losses(module.reward(states), batch["rewards"])
    # The last of gamma's factors is in it, so that what is dreamed is discounted by itself.
    goes_on = coefficients.gamma * batch["continues"].to(torch.float32)
    continuation = module.continuation(states).squeeze(-1)
    dynamics, representation = divergences(
        observed.posterior, observed.prior, coefficients.free_nats
    )
    return {
        "decoder": module.decoder.losses(states, tree_of(batch, "features")),
        "reward": rewards * arrived,
        "continuation": binary_cross_entropy_with_logits(continuation, goes_on, reduction="none"),
        "dynamics": dynamics,
        "representation": representation,
    }


def divergences(posterior: Tensor, prior: Tensor, free_nats: float) -> tuple[Tensor, Tensor]:
    """Return KL(posterior || prior) that moves the prior, and the same that moves the posterior.

    What is below `free_nats`, after summing over the latents, has no gradient: so much may stay
    unexpected (Hafner et al., 2023, eq. 5).

    Args:
        posterior: Log-probabilities, `[..., S, K]`.
        prior: Log-probabilities, `[..., S, K]`.
        free_nats: The bound.
    """
    dynamics = kl(posterior.detach(), prior).clamp_min(free_nats)
    representation = kl(posterior, prior.detach()).clamp_min(free_nats)
    return dynamics, representation


def policy_losses(
    logp: Tensor, entropies: Tensor, advantages: Tensor, weights: Tensor, entropy_scale: float
) -> Tensor:
    """REINFORCE with an entropy bonus, for all kinds of actions, `[H, N]` all.

    Args:
        logp: Log-probabilities of dreamed actions.
        entropies: Of the actor, nats.
        advantages: Normalised; no gradient flows through them.
        weights: How much each step counts.
        entropy_scale: Weight of the entropies.
    """
    return -weights.detach() * (logp * advantages.detach() + entropy_scale * entropies)


def critic_losses(
    critic: TwoHotHead,
    logits: Tensor,
    targets: Tensor,
    slow_critic: TwoHotHead,
    states: Tensor | Drawn,
    coefficients: Coefficients,
) -> Tensor:
    """Return the critic's cross-entropies with returns, and with what its slow copy says, `[...]`.

    Args:
        critic: Is trained.
        logits: What it says of the states, `[..., 255]`.
        targets: Returns, `[...]`.
        slow_critic: The copy.
        states: The model's features, `[..., …]`.
        coefficients: The numbers in the losses.
    """
    with torch.no_grad():
        slow = slow_critic.mean(slow_critic(states))
    of_returns, of_slow = critic.losses(logits, targets, slow)
    return of_returns + coefficients.slow_critic * of_slow


def replay_critic_loss(
    module: Dreamer,
    batch: Batch,
    observed: Observed,
    dreamed_returns: Tensor,
    slow_critic: TwoHotHead,
    coefficients: Coefficients,
) -> Tensor:
    """Return the critic's loss on lambda-returns of real rewards; a scalar.

    They bootstrap from returns of dreams that began in the next row. The gradient goes on into the
    world model, whose states become such that returns can be told from them.

    Args:
        module: World model and critic.
        batch: Columns `[T, B]`: rewards, continues and valid.
        observed: What the model makes of it.
        dreamed_returns: Of dreams from each row, `[T, B]`.
        slow_critic: A slow copy of the critic.
        coefficients: The numbers in the losses.
    """
    valid, discounts = batch["valid"], coefficients.gamma * batch["continues"].to(torch.float32)
    returns = lambda_return(
        batch["rewards"][1:],
        dreamed_returns.detach()[1:],
        discounts[1:],
        valid[1:],
        coefficients.lambda_,
    )
    states = observed.latents.features[:-1]
    losses = critic_losses(
        module.critic, module.critic(states), returns, slow_critic, states, coefficients
    )
    return masked_mean(losses, valid[:-1].to(torch.float32))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the values `[...]` where the mask `[...]` is 1; 0 where it nowhere is."""
    return (values * mask).sum() / mask.sum().clamp_min(1.0)


def _metrics(
    observed: Observed,
    seen: Tensor,
    dreamed: Dream,
    returns: Tensor,
    values: Tensor,
    entropies: Tensor,
    module: Dreamer,
) -> Metrics:
    """Return what is reported besides the losses."""
    return {
        "prior_entropy": masked_mean(entropy(observed.prior.detach()), seen),
        "posterior_entropy": masked_mean(entropy(observed.posterior.detach()), seen),
        "dreamed_reward_mean": dreamed.rewards.mean(),
        "dreamed_return_mean": returns.mean(),
        "return_scale": return_scale(module.return_range),
        "v_mean": values.mean(),
        "entropy": entropies.detach().mean(),
    }
