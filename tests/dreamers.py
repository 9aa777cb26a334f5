"""Small policies of DreamerV3 that have learned nothing, but whose heads say something."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch

from trainables import DreamerV3Config
from trainables.core.policy.policy import Policy

TINY: dict[str, Any] = {"model_size": "nano", "batch_size_B": 2, "batch_length_T": 8}


def dreamer_policy(observation_space: gym.Space, action_space: gym.Space) -> Policy:
    from trainables.dreamerv3.algorithm import DreamerV3
    from trainables.lifecycle.building import make_policy
    from trainables.lifecycle.spaces import Spaces

    algo: Any = DreamerV3.__new__(DreamerV3)
    algo.config = config = DreamerV3Config(**TINY)
    spaces = Spaces(observation_space, action_space)
    made: Policy = make_policy(config, spaces, algo.module_options(), 0, None)
    module: Any = made.module
    with torch.no_grad():  # they are 0 at first
        for head in (module.reward, module.decoder):
            for parameter in head.parameters():
                parameter.add_(0.05)
    return made
