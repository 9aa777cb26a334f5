"""Which environments are Atari games, and what follows from it where a setting says nothing."""

from __future__ import annotations

from typing import Any

# Keys of `env_config` by which settings of the config reach the environment.
PREPROCESS = "preprocess"
LIFE_LOSS = "episodic_life"

FRAME_STACK = 4  # Mnih et al. (2015)
ENVPOOL = "envpool:"
# EnvPool preprocesses by itself; stacking frames and clipping rewards are this project's.
ENVPOOL_ARGUMENTS: dict[str, Any] = {"stack_num": 1, "reward_clip": False}


def is_ale(env: Any) -> bool:
    """Whether an environment is a game of the Arcade Learning Environment, by gymnasium's id."""
    return isinstance(env, str) and env.startswith("ALE/")


def is_envpool(env: Any) -> bool:
    """Whether EnvPool makes an environment."""
    return isinstance(env, str) and env.startswith(ENVPOOL)
