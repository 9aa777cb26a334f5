"""Data of small environments that somebody plays by rules, with random actions in between."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from recorded_data import play, write

from trainables.runtime.offline.episode import DataSpaces


def swing_up(obs: np.ndarray) -> np.ndarray:
    """Pendulum's torque: with the swing until the energy is that of the top, then held there."""
    angle, speed = math.atan2(obs[1], obs[0]), float(obs[2])
    if abs(angle) < 0.5 and abs(speed) < 3:
        torque = -(10 * angle + 2 * speed)
    else:
        energy = speed**2 / 2 + 15 * (math.cos(angle) - 1)  # per moment of inertia; 0 at the top
        torque = -energy * math.copysign(1, speed)
    return np.clip([torque], -2, 2).astype(np.float32)


def balance(obs: np.ndarray) -> np.int64:
    """CartPole's push: to where the pole falls, and where the cart has to go back."""
    position, speed, angle, rate = obs
    return np.int64(angle + 0.5 * rate + 0.02 * position + 0.05 * speed > 0)


PLAYERS: dict[str, Any] = {"Pendulum-v1": swing_up, "CartPole-v1": balance}


def mixed_play(
    env_id: str, folder: Path, num_steps: int, random_share: float = 0.3
) -> tuple[str, float]:
    """Record as many steps of a player who errs as of random play.

    Args:
        env_id: One of `PLAYERS`.
        folder: Where it is written.
        num_steps: Of both together, about.
        random_share: Share of the player's actions that are random.

    Returns:
        The folder, and the player's mean return.
    """
    env, rng = gym.make(env_id), np.random.default_rng(0)
    spaces = DataSpaces(env.observation_space, env.action_space)

    def errs(obs: np.ndarray) -> Any:
        random = rng.random() < random_share
        return env.action_space.sample() if random else PLAYERS[env_id](obs)

    by_rule, at_random = (
        play(env, spaces, seed, num_steps // 2, player=player, most_steps=500)
        for seed, player in enumerate((errs, None))
    )
    mean_return = float(np.mean([episode.rewards.sum() for episode in by_rule]))
    return write(folder, [*by_rule, *at_random], spaces), mean_return
