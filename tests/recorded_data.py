"""Data for algorithms that learn from nothing else: recorded once for each environment."""

from __future__ import annotations

import atexit
import functools
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.callables import resolve_callable
from trainables.runtime.envs.make import env_name
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.writers import make_writer

_NUM_STEPS = 600
_MOST_STEPS = 60  # of an episode: then the recording ends amid it

_folder = tempfile.TemporaryDirectory(prefix="tunescape-recorded-")
atexit.register(_folder.cleanup)


def recorded(env: Any) -> str:
    """Return a folder with random play in an environment, as `env` of a config may name it."""
    return _recorded(env if isinstance(env, str) else env_name(env))


@functools.cache
def _recorded(env: str) -> str:
    folder = Path(_folder.name) / env.replace("/", "_").replace(":", "_")
    made = resolve_callable(env)({}) if ":" in env else gym.make(env)
    spaces = DataSpaces(made.observation_space, made.action_space)
    write(folder, play(made, spaces), spaces)
    made.close()
    return str(folder)


def write(folder: Path, episodes: list[Episode], spaces: DataSpaces) -> str:
    """Write episodes to a folder as Parquet; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = make_writer(folder, spaces)
    for episode in episodes:
        writer.write(episode)
    writer.close()
    return str(folder)


def play(
    env: gym.Env, spaces: DataSpaces, seed: int = 0, num_steps: int = _NUM_STEPS
) -> list[Episode]:
    """Return episodes of random actions, at least so many steps."""
    env.action_space.seed(seed)
    act = getattr(env, "allowed_action", env.action_space.sample)  # there where some are masked
    episodes: list[Episode] = []
    obs, _ = env.reset(seed=seed)
    while sum(map(len, episodes)) < num_steps:
        seen, done, rewards, terminated, truncated = [obs], [], [], False, False
        while not (terminated or truncated) and len(done) < _MOST_STEPS:
            action = act()
            obs, reward, terminated, truncated, _ = env.step(action)
            seen.append(obs)
            done.append(action)
            rewards.append(reward)
        episodes.append(
            Episode(
                obs=_rows(spaces.obs_layout, seen),
                actions=_rows(spaces.action_layout, done),
                rewards=np.array(rewards, np.float32),
                terminated=bool(terminated),
                truncated=bool(truncated) and not terminated,
                episode_id=str(len(episodes)),
            )
        )
        obs, _ = env.reset()
    return episodes


def _rows(layout: Any, items: list[Any]) -> np.ndarray:
    return np.concatenate([layout.rows(item, batched=False) for item in items])
