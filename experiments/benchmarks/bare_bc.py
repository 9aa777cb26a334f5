"""A hand-written loop of behaviour cloning, its data in memory: the speed to hold a framework to.

Like `bare_ppo.py` it knows no configuration, logging or checkpoints::

    python bare_bc.py bc speed /path/to/data/cartpole/expert

The last line it prints is one JSON object.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import imitation  # type: ignore[import-not-found]  # the neighbour, see there
import numpy as np
import torch
from imitation import ImitationSettings
from torch import Tensor, nn

ITERATION = 100
"""Updates of an iteration, after which the mean loss is looked at."""
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class BareBC:
    """Two hidden layers of tanh units, the mean log-probability, Adam."""

    def __init__(self, settings: ImitationSettings) -> None:
        self.s = settings
        torch.manual_seed(settings.seed)
        self.rng = np.random.default_rng(settings.seed)
        arrays = settings.arrays()
        self.obs, self.actions = arrays["obs"], arrays["actions"]
        obs_space, self.action_space = settings.spaces
        self.is_discrete = isinstance(self.action_space, gym.spaces.Discrete)
        outputs = self.action_space.n if self.is_discrete else 2 * self.action_space.shape[0]
        self.network = nn.Sequential(
            nn.Linear(obs_space.shape[0], settings.hidden),
            nn.Tanh(),
            nn.Linear(settings.hidden, settings.hidden),
            nn.Tanh(),
            nn.Linear(settings.hidden, outputs),
        )
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.lr, fused=True)
        self.updates, self.loss = 0, math.nan

    def iterate(self) -> None:
        """Some updates."""
        losses = [self.update() for _ in range(ITERATION)]
        self.loss = torch.stack(losses).mean().item()
        self.updates += ITERATION

    def update(self) -> Tensor:
        """One gradient step on rows drawn with replacement."""
        rows = self.rng.integers(len(self.obs), size=self.s.batch_size)
        obs = torch.from_numpy(self.obs[rows])
        actions = torch.from_numpy(self.actions[rows])
        loss = self.loss_of(self.network(obs), actions)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def loss_of(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """The mean negative log-probability of actions."""
        if self.is_discrete:
            return nn.functional.cross_entropy(outputs, actions)
        mean, log_std = outputs.chunk(2, 1)
        z = (actions - mean) * (-log_std).exp()
        return (0.5 * z.square() + log_std + HALF_LOG_2PI).sum(1).mean()

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> Any:
        """The greedy action."""
        outputs = self.network(torch.from_numpy(obs))
        if self.is_discrete:
            return int(outputs.argmax())
        return outputs.chunk(2)[0].numpy().clip(self.action_space.low, self.action_space.high)

    def stop(self) -> None:
        """Nothing is held."""


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = imitation.arguments(__doc__, ("bc",))
    torch.set_num_threads(1)
    imitation.run("bare", args, BareBC)


if __name__ == "__main__":
    main()
