"""The recurrent state-space model (Hafner et al., 2019; 2023): what happened, as a state.

A state is `h`, which a GRU carries on, and `z`, drawn anew of every step: from the *posterior*,
which sees the observation, or, in dreams, from the *prior*, which does not.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from trainables.core.networks.world_model.latents import Drawn, draw, draw_classes, mixed, unimix
from trainables.core.networks.world_model.layers import (
    BlockLinear,
    Normed,
    RMSNorm,
    linear_layer,
    mlp,
)
from trainables.core.networks.world_model.sizes import ModelSize


class Latent(NamedTuple):
    """The state of the model after a step.

    Attributes:
        h: The recurrent part, `[..., deter]`.
        z: The stochastic part, one-hot, `[..., S, K]`.
    """

    h: Tensor
    z: Tensor

    @property
    def features(self) -> Tensor:
        """Both side by side: what heads, actor and critic see, `[..., deter + S K]`."""
        return torch.cat([self.h, self.z.flatten(-2)], -1)

    def where_not(self, is_first: Tensor) -> Latent:
        """Return zeros in the rows that begin an episode, `[B]` bool."""
        keep = ~is_first.unsqueeze(-1)
        return Latent(torch.where(keep, self.h, 0.0), torch.where(keep.unsqueeze(-1), self.z, 0.0))


class Observed(NamedTuple):
    """What the model makes of sequences, `[T, B, …]`.

    Attributes:
        latents: The states after each row, z drawn from the posteriors.
        posterior: Log-probabilities of z given what was seen, `[T, B, S, K]`.
        prior: Log-probabilities of z given what was before, `[T, B, S, K]`.
    """

    latents: Latent
    posterior: Tensor
    prior: Tensor


class RSSM(nn.Module):
    """A recurrent state-space model with a GRU of blocks and categorical latents.

    Args:
        num_tokens: Width of the encoder's output.
        num_actions: Width of encoded actions.
        size: Widths of the layers.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_tokens: int,
        num_actions: int,
        size: ModelSize,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.size = size
        hidden, deter, num_latents = size.hidden, size.deter, size.stoch * size.classes
        self.from_h = Normed(deter, hidden, generator)
        self.from_z = Normed(num_latents, hidden, generator)
        self.from_action = Normed(num_actions, hidden, generator)
        # Each block sees its own part of h, and all that is new.
        self.mix_inputs = linear_layer(3 * hidden, deter, 1.0, generator)
        self.mix_h = BlockLinear(deter, deter, size.blocks, generator)
        self.mix_norm = RMSNorm(deter)
        self.gates = BlockLinear(deter, 3 * deter, size.blocks, generator)
        self.prior = mlp(deter, [hidden] * 2, num_latents, generator=generator)
        self.see_tokens = linear_layer(num_tokens, hidden, 1.0, generator)
        self.see_h = linear_layer(deter, hidden, 1.0, generator)
        self.see_norm = RMSNorm(hidden)
        self.posterior = linear_layer(hidden, num_latents, 1.0, generator)

    def initial(self, batch_size: int) -> Latent:
        """Return the state before an episode: zeros."""
        size, like = self.size, self.gates.bias
        zeros = like.new_zeros(batch_size, size.deter)
        return Latent(zeros, like.new_zeros(batch_size, size.stoch, size.classes))

    def act_inputs(self, actions: Tensor) -> Tensor:
        """Return what `advance` takes of encoded actions `[..., A]`, `[..., hidden]`."""
        # Those of unbounded noise are scaled back: a direction is learned from, not a size.
        bounded = actions / actions.abs().clamp_min(1.0).detach()
        hidden: Tensor = self.from_action(bounded)
        return hidden

    def advance(self, before: Latent, action_inputs: Tensor) -> Tensor:
        """Return h after an action, `[B, deter]`: a GRU whose matrices are block-diagonal.

        Args:
            before: The state that was acted in, `[B, …]`.
            action_inputs: What `act_inputs` made of the actions, `[B, hidden]`.
        """
        return self._advance(before.h, self.from_z(before.z.flatten(-2)), action_inputs)

    def _advance(self, h: Tensor, z_inputs: Tensor, action_inputs: Tensor) -> Tensor:
        new = torch.cat([self.from_h(h), z_inputs, action_inputs], -1)
        mixed = silu(self.mix_norm(self.mix_inputs(new) + self.mix_h(h)))
        blocks = self.gates(mixed).unflatten(-1, (self.size.blocks, 3, -1))
        reset, candidate, update = (gate.flatten(-2) for gate in blocks.unbind(-2))
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        # By the -1 the state changes slowly at first.
        return torch.lerp(h, candidate, torch.sigmoid(update - 1))

    def prior_of(self, h: Tensor) -> Tensor:
        """Return log-probabilities of z before anything is seen, `[..., S, K]`."""
        return unimix(self._logits(self.prior(h)))

    def posterior_of(self, h: Tensor, seen: Tensor) -> Tensor:
        """Return log-probabilities of z, `[..., S, K]`.

        Args:
            h: `[..., deter]`.
            seen: `see_tokens` of what was seen, `[..., hidden]`.
        """
        return unimix(self._logits(self.posterior(silu(self.see_norm(self.see_h(h) + seen)))))

    def _logits(self, outputs: Tensor) -> Tensor:
        return outputs.unflatten(-1, (self.size.stoch, self.size.classes))

    def observe(
        self,
        tokens: Tensor,
        actions: Tensor,
        is_first: Tensor,
        before: Latent,
        noise: Tensor | None,
    ) -> Observed:
        """Run over sequences. Only what depends on the state before is done step by step.

        Args:
            tokens: The encoder's output, `[T, B, num_tokens]`.
            actions: The encoded actions that led to each row, `[T, B, A]`.
            is_first: Whether a row begins an episode, `[T, B]`: neither state nor action counts.
            before: The state before the first row, `[B, …]`.
            noise: Uniform in [0, 1), `[T, B, S]`; None: z is the most likely one.
        """
        latents, posteriors = self.follow(tokens, actions, is_first, before, noise)
        return Observed(latents, posteriors, self.prior_of(latents.h))

    def follow(
        self,
        tokens: Tensor,
        actions: Tensor,
        is_first: Tensor,
        before: Latent,
        noise: Tensor | None,
    ) -> tuple[Latent, Tensor]:
        """Do as `observe` without the priors, which acting does without."""
        seen = self.see_tokens(tokens)
        done = self.act_inputs(torch.where(is_first.unsqueeze(-1), 0.0, actions))
        steps: list[Latent] = []
        posteriors: list[Tensor] = []
        # Taken apart at once: the gradient of each row by itself would be as large as all.
        rows = zip(done.unbind(), seen.unbind(), is_first.unbind(), strict=True)
        for t, (done_now, seen_now, begins) in enumerate(rows):
            h = self.advance(before.where_not(begins), done_now)
            posteriors.append(self.posterior_of(h, seen_now))
            before = Latent(h, draw(posteriors[-1], None if noise is None else noise[t]))
            steps.append(before)
        latents = Latent(torch.stack([s.h for s in steps]), torch.stack([s.z for s in steps]))
        return latents, torch.stack(posteriors)

    def dream(self, before: Latent, actions: Tensor, noise: Tensor | None) -> Latent:
        """Return the state after an action, of which nothing was seen.

        Args:
            before: The state that was acted in, `[B, …]`.
            actions: Encoded, `[B, A]`.
            noise: Uniform in [0, 1), `[B, S]`; None: z is the most likely one.
        """
        h = self.advance(before, self.act_inputs(actions))
        return Latent(h, draw(self.prior_of(h), noise))

    @torch.no_grad()
    def dream_on(self, before: Drawn, actions: Tensor, noise: Tensor) -> Drawn:
        """Do as `dream` without gradients: of z only its classes are drawn.

        Args:
            before: The state that was acted in, `[B, …]`.
            actions: Encoded, `[B, A]`.
            noise: Uniform in [0, 1), `[B, S]`.
        """
        assert before.h is not None
        of_z = self.from_z(before._replace(h=None))
        h = self._advance(before.h, of_z, self.act_inputs(actions))
        probs = mixed(self._logits(self.prior(h)))
        return before._replace(h=h, classes=draw_classes(probs, noise))
