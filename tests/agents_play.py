"""Several agents that are played at random, and all that a step told, to compare it."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.runtime.envs.multi_agent.vector_env import AgentsStep, AgentsVectorEnv


def allowed_actions(
    env: AgentsVectorEnv, step: AgentsStep, rng: np.random.Generator
) -> list[np.ndarray]:
    """Draw an action for each row, one that the mask allows if there is a mask."""
    batches = []
    for group, rows in zip(env.groups, step.groups, strict=True):
        count, space = len(rows.acts), group.action_space
        if isinstance(space, gym.spaces.Discrete):
            is_masked = isinstance(rows.obs, dict) and "action_mask" in rows.obs
            mask = rows.obs["action_mask"] if is_masked else np.ones((count, space.n))
            batches.append((rng.random((count, space.n)) * mask).argmax(axis=1))
        else:
            batches.append(rng.random((count, *(space.shape or ()))).astype(np.float32))
    return batches


def told(step: AgentsStep) -> list[Any]:
    """Return a copy of all that a step says."""
    groups = [vars(rows) for rows in step.groups]
    return copy.deepcopy([groups, step.is_over, step.resets, step.replaced, step.infos])


def played(env: AgentsVectorEnv, step: AgentsStep, num_steps: int, seed: int) -> list[Any]:
    """Return what so many steps of random actions tell."""
    rng, record = np.random.default_rng(seed), []
    for _ in range(num_steps):
        step = env.step(allowed_actions(env, step, rng))
        record.append(told(step))
    return record
