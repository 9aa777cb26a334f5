"""The metrics that a result holds, by name, so that a misspelt one fails before a sweep starts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from analysis.names import ENV_STEPS, ITERATION, SECONDS
from experiments.spec.trainable import is_own
from search_spaces.documents import SpecError
from trainables.core.all_metrics import (
    COMMON,
    ESTIMATES,
    INTRINSIC,
    LEAGUE,
    SAMPLED,
    SEVERAL_AGENTS,
    TUNES,
)
from trainables.core.reported_metrics import OLDER_EVALUATED, Reported
from trainables.core.suggestions import did_you_mean, nearest_name
from trainables.registry import algorithm_names, get_algorithm

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
        ("episode_reward", "episode_return", "mean_reward", "reward_mean", "reward", "return"),
        "episode_return_mean",
    ),
    **dict.fromkeys(("episode_len", "episode_length", "ep_len"), "episode_len_mean"),
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
        name: The name as written; older names of our algorithms' metrics are known.
        trainable: The class that reports it; by default an algorithm of ours. Any other class may
            say in its attribute `metrics` (a tuple) what it reports; of one that does not, every
            name is taken, and its first result shows (`experiments.monitor.metric_watch`).

    Raises:
        SpecError: The name is not among what the trainable reports, with the nearest one.
    """
    ours = trainable is None or not is_own(trainable)
    listed = getattr(trainable, "metrics", None)
    if not ours and listed is None:
        return name
    if name in (listed or ()):
        return name
    outer = _EVALUATION if name.startswith(_EVALUATION) else ""
    found = name.removeprefix(outer)
    for prefix in _LEGACY_PREFIXES:
        found = found.removeprefix(prefix)
    found = outer + LEGACY.get(found, found)
    if ours and (found in top_level(_EVERY) or found.startswith(_EVERY_FAMILY)):
        return found  # no algorithm need be imported
    metrics = declared_metrics(trainable)
    known = [*(top_level(metrics) if ours else TUNES_OWN), *(listed or ())]
    prefixes = families(metrics)
    if found in known or found.startswith(prefixes):
        return found
    if name in known:
        return name
    if ours and name in _CALLED_HERE:
        raise SpecError(f"unknown metric {name!r}; here it is {_CALLED_HERE[name]}")
    names = ", ".join([*known, *(f"{family}…" for family in prefixes)])
    raise SpecError(f"unknown metric {name!r}; allowed: {names}{_hint(name, known)}")


def declared_metrics(trainable: Any = None) -> tuple[Reported, ...]:
    """Return what the results of a trainable may hold.

    Args:
        trainable: An algorithm; one that is none of ours reports what all algorithms do, as far as
            is known; None: any algorithm, for which all are imported.
    """
    algorithms = [trainable] if trainable else map(get_algorithm, algorithm_names())
    own = [getattr(algorithm, "reported_metrics", ()) for algorithm in algorithms]
    return (
        *SAMPLED,
        *COMMON,
        *SEVERAL_AGENTS,
        *ESTIMATES,
        *INTRINSIC,
        *LEAGUE,
        *chain.from_iterable(own),
        *TUNES,
    )


def top_level(metrics: Iterable[Reported]) -> tuple[str, ...]:
    """Return the names without a prefix, each once, older ones left out."""
    names = (metric.name for metric in metrics)
    return tuple(dict.fromkeys(name for name in names if "/" not in name and name not in LEGACY))


def families(metrics: Iterable[Reported]) -> tuple[str, ...]:
    """Return the prefixes of metrics that depend on the algorithm, its settings and callbacks."""
    names = (metric.name for metric in metrics)
    return tuple(dict.fromkeys(f"{name.partition('/')[0]}/" for name in names if "/" in name))


def _hint(name: str, known: list[str]) -> str:
    """Return the allowed metric that was probably meant, where an older name is nearest too."""
    found = nearest_name(name, [*known, *LEGACY])
    return did_you_mean([] if found is None else [LEGACY.get(found, found)])


_EVERY = (*SAMPLED, *COMMON, *SEVERAL_AGENTS, *ESTIMATES, *INTRINSIC, *LEAGUE, *TUNES)
_EVERY_FAMILY = ("learner/", *families(_EVERY))
