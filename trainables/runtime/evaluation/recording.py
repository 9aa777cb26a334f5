"""Observations of an environment, to check an exported graph on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainables.core.export.graph_observations import Recording
from trainables.core.export.graph_verification import NUM_OBSERVATIONS
from trainables.core.networks.state import reset_state
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import EnvName, env_name, make_vector_env
from trainables.runtime.envs.seeding import reset_with_infos

_NUM_SLOTS = 4


def recorded(
    policy: Policy,
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    *,
    num_observations: int = NUM_OBSERVATIONS,
    seed: int = 0,
) -> Recording:
    """Play, with exploration, and keep what the environment shows.

    Args:
        policy: Acts; is left as it is.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_observations: How many.
        seed: Of environments and exploration.

    Raises:
        ConfigError: if the environment cannot be made.
    """
    vector_env = make_vector_env(env, env_config, _NUM_SLOTS)
    try:
        layout = policy.observations.layout
        num_steps = -(-num_observations // _NUM_SLOTS)
        kept_rows = layout.zeros((num_steps, _NUM_SLOTS))
        kept_rewards = np.zeros((num_steps, _NUM_SLOTS), np.float32)
        kept_firsts = np.zeros((num_steps, _NUM_SLOTS), bool)
        generator = torch.Generator(policy.device).manual_seed(seed)
        obs, _ = reset_with_infos(vector_env, np.random.SeedSequence(seed))
        rows, is_first = layout.rows(obs), np.ones(_NUM_SLOTS, bool)
        rewards = np.zeros(_NUM_SLOTS)
        resets_next = np.zeros(_NUM_SLOTS, bool)
        state = policy.initial_state(_NUM_SLOTS)
        for t in range(num_steps):
            kept_rows[t], kept_rewards[t], kept_firsts[t] = rows, rewards, is_first
            acted = policy.act(rows, True, generator, reset_state(state, is_first))
            obs, rewards, terminated, truncated, _ = vector_env.step(acted.env_actions)
            state, is_first = acted.state, resets_next
            rewards = np.where(is_first, 0.0, rewards)
            extras = policy.observations.extras(acted.actions, rewards, is_first)
            rows = layout.rows(obs, extras)
            resets_next = terminated | truncated
    finally:
        vector_env.close()
    return Recording(kept_rows, kept_rewards, kept_firsts, env_name(env) or "environment")
