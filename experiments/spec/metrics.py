"""The metrics that a result holds, by name, so that a misspelt one fails before a sweep starts."""

from __future__ import annotations

from typing import Any

from analysis.names import ENV_STEPS, ITERATION, SECONDS
from search_spaces.documents import SpecError
from trainables.core.reported_metrics import BY_ALGORITHM, COMMON, OLDER_EVALUATED, TUNES
from trainables.core.suggestions import did_you_mean, nearest_name

LEGACY = {
    "episode_reward_mean": "episode_return_mean",
    "episode_reward_min": "episode_return_min",
    "episode_reward_max": "episode_return_max",
    "episodes_total": "num_episodes_lifetime",
    "timesteps_total": ENV_STEPS,
    "agent_timesteps_total": ENV_STEPS,
    "num_env_steps_sampled": ENV_STEPS,
    "num_env_steps_trained": "num_env_steps_trained_lifetime",
    "num_agent_steps_sampled": ENV_STEPS,
    "num_agent_steps_sampled_lifetime": ENV_STEPS,
}
"""Older names of the same numbers."""

TWICE = {**LEGACY, **OLDER_EVALUATED}
"""Names that results may have beside the newer ones, those below `evaluation/` included."""

_DECLARED = [
    metric.name for metrics in (COMMON, *BY_ALGORITHM.values(), TUNES) for metric in metrics
]

METRICS = tuple(dict.fromkeys(name for name in _DECLARED if "/" not in name and name not in LEGACY))
"""What the algorithms report at the top level, and what Tune adds."""

FAMILIES = tuple(dict.fromkeys(f"{name.partition('/')[0]}/" for name in _DECLARED if "/" in name))
"""Prefixes of the metrics that depend on the algorithm and its settings."""

TUNES_OWN = (ITERATION, SECONDS, "time_this_iter_s", "timesteps_total")
"""What Tune adds to the results of any trainable."""

_CALLED_HERE = {
    **dict.fromkeys(
        ("total_timesteps", "global_step", "timesteps", "n_timesteps", "num_env_steps", "steps"),
        ENV_STEPS,
    ),
    **dict.fromkeys(
        ("rollout/ep_rew_mean", "ep_rew_mean", "charts/episodic_return", "episodic_return"),
        "episode_return_mean",
    ),
    **dict.fromkeys(
        ("rollout/ep_len_mean", "ep_len_mean", "charts/episodic_length"), "episode_len_mean"
    ),
    "eval/mean_reward": "evaluation/episode_return_mean",
}
"""What Stable-Baselines3 and CleanRL call some of them: hints, which are not accepted."""

_EVALUATION = "evaluation/"
_LEGACY_PREFIXES = ("env_runners/", "sampler_results/")


def canonical_metric(name: str, trainable: Any = None) -> str:
    """Return the canonical name of a metric.

    Args:
        name: As written; older names of our algorithms' metrics are known.
        trainable: Whose metric it is; by default an algorithm of this package. Any other class may
            say in its attribute `metrics` (a tuple) what it reports; of one that does not, every
            name is taken, and its first result shows (`experiments.monitor.metric_watch`).

    Raises:
        SpecError: The name is not among what the trainable reports, with the nearest one.
    """
    ours = trainable is None or _is_algorithm(trainable)
    declared = getattr(trainable, "metrics", None)
    if not ours and declared is None:
        return name
    known = [*(METRICS if ours else TUNES_OWN), *(declared or ())]
    if name in (declared or ()):
        return name
    outer = _EVALUATION if name.startswith(_EVALUATION) else ""
    found = name.removeprefix(outer)
    for prefix in _LEGACY_PREFIXES:
        found = found.removeprefix(prefix)
    found = outer + LEGACY.get(found, found)
    if found in known or found.startswith(FAMILIES):
        return found
    if name in known:
        return name
    if ours and name in _CALLED_HERE:
        raise SpecError(f"unknown metric {name!r}; here it is {_CALLED_HERE[name]}")
    names = ", ".join([*known, *(f"{family}…" for family in FAMILIES)])
    raise SpecError(f"unknown metric {name!r}; allowed: {names}{_hint(name, known)}")


def _hint(name: str, known: list[str]) -> str:
    """Return the allowed metric that was probably meant, where an older name is nearest too."""
    found = nearest_name(name, [*known, *LEGACY])
    return did_you_mean([] if found is None else [LEGACY.get(found, found)])


def _is_algorithm(trainable: Any) -> bool:
    """Tell whether a trainable is one of ours or extends one; it is not imported for that."""
    return any(base.__module__ == "trainables.algorithm" for base in trainable.__mro__)
