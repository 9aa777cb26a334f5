"""Classic control that needs a memory. Importing this registers it with gymnasium.

`tunescape/StatelessCartPole-v0` is CartPole-v1 without its velocities: the observation is the
cart's position and the pole's angle. One observation does not say which way the pole falls.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TransformObservation

STATELESS_CARTPOLE = "tunescape/StatelessCartPole-v0"

_SEEN = slice(0, None, 2)  # of position, velocity, angle, angular velocity


def _without_velocities(obs: np.ndarray) -> np.ndarray:
    """Position and angle of observations `[..., 4]`, `[..., 2]`."""
    return obs[..., _SEEN]


def _seen_space(space: gym.Space) -> gym.spaces.Box:
    assert isinstance(space, gym.spaces.Box)
    return gym.spaces.Box(_without_velocities(space.low), _without_velocities(space.high))


def stateless_cartpole(**env_config: Any) -> gym.Env:
    """One CartPole that shows no velocities; the arguments are CartPole's."""
    env = CartPoleEnv(**env_config)
    return TransformObservation(env, _without_velocities, _seen_space(env.observation_space))


class StatelessCartPoleVectorEnv(CartPoleVectorEnv):
    """All slots at once, as gymnasium's own."""

    def __init__(self, num_envs: int = 1, **env_config: Any):
        super().__init__(num_envs, **env_config)
        self.single_observation_space = _seen_space(self.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        obs, info = super().reset(**kwargs)
        return _without_velocities(obs), info

    def step(self, action: Any) -> tuple[Any, ...]:
        obs, *rest = super().step(action)
        return _without_velocities(obs), *rest


gym.register(
    STATELESS_CARTPOLE,
    entry_point=f"{__name__}:stateless_cartpole",
    vector_entry_point=f"{__name__}:{StatelessCartPoleVectorEnv.__name__}",
    max_episode_steps=500,
    reward_threshold=475.0,
)
