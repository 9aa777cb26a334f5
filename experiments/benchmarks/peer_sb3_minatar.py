"""PPO on MinAtar with Stable-Baselines3; runs in the peers' virtual environment (see README.md).

The last line it prints is one JSON object.
"""

from __future__ import annotations

from typing import Any

import minatar_ppo  # type: ignore[import-not-found]  # the neighbour, see there
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn


class Convolution(BaseFeaturesExtractor):
    """The network of `minatar_ppo.Settings`."""

    def __init__(self, observation_space: Any, channels: int, hidden: int) -> None:
        super().__init__(observation_space, hidden)
        height, width, planes = observation_space.shape
        self.layers = nn.Sequential(
            nn.Conv2d(planes, channels, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * (height - 2) * (width - 2), hidden),
            nn.ReLU(),
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layers(obs.float().movedim(-1, 1))


def run(settings: minatar_ppo.Settings, steps: int, seed: int) -> dict[str, Any]:
    """Train for `steps` environment steps."""
    s = settings
    recorder = minatar_ppo.Recorder(s.env)
    model = PPO(
        "CnnPolicy",
        DummyVecEnv([recorder.make] * s.slots),
        n_steps=s.rollout_length,
        n_epochs=s.epochs,
        batch_size=s.minibatch_size,
        learning_rate=s.lr,
        gamma=s.gamma,
        gae_lambda=s.lambda_,
        clip_range=s.clip,
        vf_coef=s.vf_coeff,
        ent_coef=s.entropy_coeff,
        max_grad_norm=s.max_grad_norm,
        policy_kwargs={
            "features_extractor_class": Convolution,
            "features_extractor_kwargs": {"channels": s.channels, "hidden": s.hidden},
            "net_arch": [],
            "normalize_images": False,
        },
        seed=seed,
        device="cpu",
    )
    result: dict[str, Any] = minatar_ppo.trained(recorder, lambda: model.learn(steps))
    return result


if __name__ == "__main__":
    minatar_ppo.main("sb3", run)
