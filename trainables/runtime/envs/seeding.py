"""How all slots of an environment are reset: each with a random stream of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv
from trainables.runtime.random_streams import draw_seed, draw_seeds


def reset_with_infos(env: VectorEnv, seed: np.random.SeedSequence) -> tuple[Any, dict[str, Any]]:
    """Reset all slots, each with a random stream of its own; return observations and infos.

    An integer seed would give slot i of a `SyncVectorEnv` the stream of seed + i: slot 1 of seed 0
    would then repeat slot 0 of seed 1.
    """
    # Also of the action spaces, which an environment may sample from. A user's vector environment
    # gets one seed for all its slots, drawn from all 2**31, so that no two runs are neighbours.
    pairs = [draw_seeds(child) for child in seed.spawn(env.num_envs)]
    if isinstance(env, RemoteVectorEnv):
        return env.reset(seed=pairs)
    if not isinstance(env, SyncVectorEnv):
        env.single_action_space.seed(pairs[0][1])
        env.action_space.seed(pairs[-1][1])
        return env.reset(seed=draw_seed(seed))
    for slot, (_, action_seed) in zip(env.envs, pairs, strict=True):
        slot.action_space.seed(action_seed)
    return env.reset(seed=[env_seed for env_seed, _ in pairs])


def reset_seeds(env: VectorEnv, seed: np.random.SeedSequence) -> tuple[list[int], bool]:
    """Return the seeds that `reset_with_infos` gives the slots, and whether they share one."""
    if not isinstance(env, (RemoteVectorEnv, SyncVectorEnv)):
        return [draw_seed(seed)] * env.num_envs, True
    fresh = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    return [draw_seed(child) for child in fresh.spawn(env.num_envs)], False
