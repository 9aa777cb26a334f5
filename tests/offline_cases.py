"""Policies that learn from recorded experience, and the buffers that would hold the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trainables import PPOConfig
from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.lifecycle.building import make_policy
from trainables.lifecycle.spaces import Spaces
from trainables.runtime.offline.actions import StoredActions
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.replay.buffer import ReplayBuffer


def as_rollout(episode: Episode, policy: Any) -> Rollout:
    """An episode as an env runner would have sampled it, which follows nothing: `[L, 1]`."""
    length = len(episode)
    flags = np.zeros((3, length, 1), bool)
    flags[0, -1], flags[1, -1] = episode.terminated, episode.truncated
    stored = StoredActions(policy)(episode.actions)
    obs, layout = episode.obs, policy.observations.layout
    if layout.has_extras:
        recorded, obs = obs, layout.zeros((length + 1,))
        space = ObservationLayout(policy.observation_space)
        for path, leaf in space.leaves(recorded).items():
            obs[path] = leaf
        extras = policy.observations.extras(
            torch.from_numpy(stored), episode.rewards, np.zeros(length, bool)
        )
        for name, extra in extras.items():
            obs[name][1:] = extra
    return Rollout(
        obs=obs[:, None],
        actions=stored[:, None],
        rewards=episode.rewards[:, None],
        terminated=flags[0],
        truncated=flags[1],
        logp=np.zeros((length, 1), np.float32),
        valid=~flags[2],
        continues=np.ones((length, 1), bool),
        weights_version=np.zeros(1, np.int64),
        follows=np.zeros(1, bool),
    )


def as_buffer(episodes: Sequence[Episode], policy: Any, seed: int = 0) -> ReplayBuffer:
    """A replay buffer that episodes were added to, with room for no other row."""
    buffer = ReplayBuffer(
        ReplayBufferConfig(capacity=sum(len(episode) + 1 for episode in episodes)),
        policy.observations.layout,
        policy.distribution.action_shape,
        policy.distribution.action_dtype,
        1,
        np.random.SeedSequence(seed),
        policy.observations.num_frames,
    )
    for episode in episodes:
        buffer.add(as_rollout(episode, policy))
    return buffer


def make_policy_of(spaces: DataSpaces, seed: int = 0, **settings: Any) -> Any:
    """A small policy for spaces, with what settings of PPO say of it."""
    model = {"fcnet_hiddens": [8], **settings.pop("model", {})}
    config = PPOConfig(model=model, **settings)
    return make_policy(config, Spaces(*spaces), {"type": "actor_critic"}, seed, None)
