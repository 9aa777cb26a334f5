"""Settings of iterations that are shorter than those of `small_runs`, for who makes hundreds."""

from __future__ import annotations

from typing import Any

from small_runs import learns_from_replay, needs_data, samples, settings_of

EPISODES = {"max_episode_steps": 30}
"""What ends Pendulum's episodes, so that no iteration has to wait for 200 steps."""


def short_settings_of(name: str, env: Any = "CartPole-v1", **more: Any) -> dict[str, Any]:
    """The settings of some tens of steps an iteration, beside given ones."""
    own: dict[str, Any] = {}
    if name == "DreamerV3":  # whose updates take longest
        own = {"training_ratio": 1, "num_steps_sampled_before_learning_starts": 16}
        own["min_sample_timesteps_per_iteration"] = 32
    elif learns_from_replay(name):
        own = {"num_steps_sampled_before_learning_starts": 32}
        own["min_sample_timesteps_per_iteration"] = 64
    elif samples(name):
        own = {"min_sample_timesteps_per_iteration": 128}
    elif needs_data(name):
        own = {"dataset_num_iters_per_learner": 2}
    return settings_of(name, env, **{**own, **more})
