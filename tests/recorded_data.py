"""Data for algorithms that learn from nothing else: recorded once for each environment."""

from __future__ import annotations

import atexit
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.callables import resolve_callable
from trainables.runtime.envs.make import env_name
from trainables.runtime.evaluation.record_agents import record_agents, uniform_agents
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.writers import make_writer

_NUM_STEPS = 600
_MOST_STEPS = 60  # of an episode: then the recording ends amid it

_folder = tempfile.TemporaryDirectory(prefix="tunescape-recorded-")
atexit.register(_folder.cleanup)


def recorded(env: Any, env_config: dict[str, Any] | None = None) -> str:
    """Return a folder with random play in an environment, as `env` of a config may name it.

    Only one with several agents is made with an `env_config`.
    """
    name = env if isinstance(env, str) else env_name(env)
    return _recorded_agents(name, json.dumps(env_config or {})) or _recorded(name)


@functools.cache
def _recorded_agents(env: str, env_config: str) -> str | None:
    """Play with several agents; None: there is one."""
    config = uniform_agents(env, json.loads(env_config), num_envs_per_env_runner=4)
    if config is None:
        return None
    folder = Path(tempfile.mkdtemp(dir=_folder.name))
    record_agents(config, {}, folder, num_episodes=40, name="random", time_limit=_MOST_STEPS)
    return str(folder)


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
    env: gym.Env,
    spaces: DataSpaces,
    seed: int = 0,
    num_steps: int = _NUM_STEPS,
    *,
    player: Callable[[Any], Any] | None = None,
    most_steps: int = _MOST_STEPS,
) -> list[Episode]:
    """Return episodes of at least so many steps, an episode of at most so many.

    Args:
        env: Is played.
        spaces: Of the environment.
        seed: Of the environment and of random actions.
        num_steps: Least number of steps of all episodes.
        player: From an observation to an action; None: it is random.
        most_steps: Of an episode, which may end amid it.
    """
    env.action_space.seed(seed)
    # The former where some actions are masked.
    random_action = getattr(env, "allowed_action", env.action_space.sample)
    act = player or (lambda _: random_action())
    episodes: list[Episode] = []
    obs, _ = env.reset(seed=seed)
    while sum(map(len, episodes)) < num_steps:
        seen, done, rewards, terminated, truncated = [obs], [], [], False, False
        while not (terminated or truncated) and len(done) < most_steps:
            action = act(obs)
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
