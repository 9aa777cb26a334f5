"""The metrics that a result holds, by name, so that a misspelt one fails before a sweep starts."""

from __future__ import annotations

from search_spaces.documents import SpecError, nearest

METRICS = (
    "episode_return_mean",
    "episode_return_min",
    "episode_return_max",
    "episode_len_mean",
    "num_episodes",
    "num_episodes_lifetime",
    "num_env_steps_sampled_lifetime",
    "num_env_steps_trained_lifetime",
    "num_training_step_calls_lifetime",
    "num_updates_lifetime",
    "env_steps_per_second",
    "training_iteration",
    "time_total_s",
    "time_this_iter_s",
)
"""What the algorithms report at the top level, and what Tune adds."""

FAMILIES = ("learner/", "evaluation/", "time/", "replay/", "exploration/")
"""Prefixes of the metrics that depend on the algorithm and its settings."""

LEGACY = {
    "episode_reward_mean": "episode_return_mean",
    "episode_reward_min": "episode_return_min",
    "episode_reward_max": "episode_return_max",
    "episodes_total": "num_episodes_lifetime",
    "timesteps_total": "num_env_steps_sampled_lifetime",
    "agent_timesteps_total": "num_env_steps_sampled_lifetime",
    "num_env_steps_sampled": "num_env_steps_sampled_lifetime",
    "evaluation/episode_reward_mean": "evaluation/episode_return_mean",
}
"""Older names of the same numbers."""

_LEGACY_PREFIXES = ("env_runners/", "sampler_results/")


def canonical_metric(name: str) -> str:
    """The canonical name of a metric; raises `SpecError` with the nearest known name."""
    for prefix in _LEGACY_PREFIXES:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
    name = LEGACY.get(name, name)
    if name in METRICS or any(name.startswith(family) for family in FAMILIES):
        return name
    families = ", ".join(f"{family}…" for family in FAMILIES)
    hint = nearest(name, [*METRICS, *LEGACY])
    raise SpecError(f"unknown metric {name!r}; allowed: {', '.join(METRICS)}, {families}{hint}")
