"""Hand-written loops of CQL and IQL for bounded continuous actions, their data in memory.

Like `bare_ppo.py` they know no configuration, logging or checkpoints::

    python bare_offline.py cql speed /path/to/data/pendulum/mixed

The last line it prints is one JSON object.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import imitation  # type: ignore[import-not-found]  # the neighbour, see there
import numpy as np
import torch
from imitation import ImitationSettings
from torch import Tensor, nn

ITERATION = 100
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
LOG_2 = math.log(2.0)
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
MAX_WEIGHT = 100.0
MAX_ACTION = 0.999
"""Of recorded actions, where the density of a squashed Gaussian is asked for."""


def network(size_in: int, hidden: int, size_out: int) -> nn.Sequential:
    """Two hidden layers of relu units."""
    return nn.Sequential(
        nn.Linear(size_in, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, size_out),
    )


class TwinQ(nn.Module):
    """Two Q-functions of observations and actions."""

    def __init__(self, size_in: int, hidden: int) -> None:
        super().__init__()
        self.both = nn.ModuleList(network(size_in, hidden, 1) for _ in range(2))

    def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
        """`[2, …]`."""
        inputs = torch.cat((obs, actions), -1)
        return torch.stack([q(inputs).squeeze(-1) for q in self.both])


class Bare:
    """Rows in memory, a squashed Gaussian, twin Q and a slow copy of them."""

    def __init__(self, settings: ImitationSettings) -> None:
        s = self.s = settings
        torch.manual_seed(s.seed)
        self.rng = np.random.default_rng(s.seed)
        arrays, (obs_space, action_space) = s.arrays(), s.spaces
        obs_size, self.action_size = obs_space.shape[0], action_space.shape[0]
        self.low, self.span = action_space.low, (action_space.high - action_space.low) / 2.0
        self.columns = {
            "obs": arrays["obs"],
            "next_obs": arrays["next_obs"],
            "actions": (arrays["actions"] - self.low) / self.span - 1.0,
            "rewards": arrays["rewards"],
            "continues": 1.0 - arrays["terminated"].astype(np.float32),
        }
        self.actor = network(obs_size, s.hidden, 2 * self.action_size)
        self.q = TwinQ(obs_size + self.action_size, s.hidden)
        self.target_q = copy.deepcopy(self.q)
        self.q_params: list[Tensor] = [*self.q.parameters()]
        self.target_params: list[Tensor] = [*self.target_q.parameters()]
        self.value = network(obs_size, s.hidden, 1)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.updates, self.loss = 0, math.nan
        self.optimizer = torch.optim.Adam(self.trained(), lr=s.lr, fused=True)

    def trained(self) -> list[Tensor]:
        """What the optimiser steps."""
        raise NotImplementedError

    def losses(self, rows: dict[str, Tensor]) -> Tensor:
        """The sum of all losses, which have no parameter in common."""
        raise NotImplementedError

    def iterate(self) -> None:
        """Some updates."""
        losses = [self.update() for _ in range(ITERATION)]
        self.loss = torch.stack(losses).mean().item()
        self.updates += ITERATION

    def update(self) -> Tensor:
        """One gradient step on rows drawn with replacement, and one of the slow copy."""
        drawn = self.rng.integers(len(self.columns["obs"]), size=self.s.batch_size)
        rows = {name: torch.from_numpy(column[drawn]) for name, column in self.columns.items()}
        loss = self.losses(rows)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.target_params, self.q_params, self.s.tau)
        return loss.detach()

    def gaussian(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log sigmas before tanh."""
        mean, log_std = self.actor(obs).chunk(2, -1)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

    def frozen_q(self, obs: Tensor, actions: Tensor) -> Tensor:
        """The lesser Q, with gradients of the actions alone."""
        for parameter in self.q.parameters():
            parameter.requires_grad_(False)
        values: Tensor = self.q(obs, actions).amin(0)
        for parameter in self.q.parameters():
            parameter.requires_grad_(True)
        return values

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> Any:
        """The greedy action."""
        mean, _ = self.gaussian(torch.from_numpy(np.asarray(obs, np.float32)))
        return self.low + (mean.tanh().numpy() + 1.0) * self.span

    def stop(self) -> None:
        """Nothing is held."""


class BareCQL(Bare):
    """SAC with the conservative term, targets without entropy."""

    def trained(self) -> list[Tensor]:
        return [*self.actor.parameters(), *self.q.parameters(), self.log_alpha]

    def losses(self, rows: dict[str, Tensor]) -> Tensor:
        s, obs, next_obs = self.s, rows["obs"], rows["next_obs"]
        alpha = self.log_alpha.detach().exp()
        gaussian = self.gaussian(obs)
        with torch.no_grad():
            next_gaussian = self.gaussian(next_obs)
            next_q = self.target_q(next_obs, sampled(*next_gaussian)[0]).amin(0)
            target = rows["rewards"] + s.gamma * rows["continues"] * next_q
            shape = (len(obs), s.num_actions, self.action_size)
            uniform = torch.empty(shape).uniform_(-1.0, 1.0)
            of_uniform = torch.full(shape[:2], -self.action_size * LOG_2)
            here, of_here = sampled(*(part.unsqueeze(1).expand(shape) for part in gaussian))
            there, of_there = sampled(*(part.unsqueeze(1).expand(shape) for part in next_gaussian))
        actions = torch.cat((rows["actions"].unsqueeze(1), uniform, here, there), 1)
        q = self.q(obs.unsqueeze(1).expand(-1, actions.shape[1], -1), actions)
        of_data = q[..., 0]
        logits = q[..., 1:] - torch.cat((of_uniform, of_here, of_there), 1)
        gap = logits.logsumexp(-1) - of_data
        critic_loss = 0.5 * ((of_data - target).square() + s.min_q_weight * gap).mean(1).sum()
        action, logp = sampled(*gaussian)
        actor_loss = (alpha * logp - self.frozen_q(obs, action)).mean()
        alpha_loss = -self.log_alpha * (logp.detach().mean() - self.action_size)
        return critic_loss + actor_loss + alpha_loss


class BareIQL(Bare):
    """Implicit Q-learning."""

    def trained(self) -> list[Tensor]:
        return [*self.actor.parameters(), *self.q.parameters(), *self.value.parameters()]

    def losses(self, rows: dict[str, Tensor]) -> Tensor:
        s, obs = self.s, rows["obs"]
        with torch.no_grad():
            of_target = self.target_q(obs, rows["actions"]).amin(0)
            next_value = self.value(rows["next_obs"]).squeeze(-1)
            target = rows["rewards"] + s.gamma * rows["continues"] * next_value
        advantage = of_target - self.value(obs).squeeze(-1)
        sides = torch.where(advantage < 0, 1 - s.expectile, s.expectile)
        value_loss = (sides * advantage.square()).mean()
        critic_loss = (self.q(obs, rows["actions"]) - target).square().mean(1).sum()
        weights = (s.beta * advantage.detach()).exp().clamp_max(MAX_WEIGHT)
        raw = rows["actions"].clamp(-MAX_ACTION, MAX_ACTION).atanh()
        mean, log_std = self.gaussian(obs)
        noise = (raw - mean) * (-log_std).exp()
        return value_loss + critic_loss - (weights * log_density(raw, noise, log_std)).mean()


def sampled(mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """Actions in (-1, 1) `[…, d]` and their log-densities `[…]`."""
    noise = torch.randn_like(mean)
    raw = torch.addcmul(mean, log_std.exp(), noise)
    return raw.tanh(), log_density(raw, noise, log_std)


def log_density(raw: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    """Of a squashed Gaussian, where `raw` is before tanh and `noise` its standardised value."""
    gaussian = -0.5 * noise.square() - log_std - HALF_LOG_2PI
    squash = 2.0 * (LOG_2 - raw - nn.functional.softplus(-2.0 * raw))
    return (gaussian - squash).sum(-1)


_LOOPS = {"cql": BareCQL, "iql": BareIQL}


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = imitation.arguments(__doc__, tuple(_LOOPS))
    torch.set_num_threads(1)
    imitation.run("bare", args, _LOOPS[args.algorithm])


if __name__ == "__main__":
    main()
