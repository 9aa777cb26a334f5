"""Exploration that differs between env runners, as in Ape-X (Horgan et al., 2018, section 4).

Env runner i of N, from 1, has the constant `0.4^(1 + 7 (i - 1) / (N - 1))`: the probability of a
uniform action, or the factor of the noise. So some explore much and some hardly at all, from the
first step to the last.
"""

from __future__ import annotations

from typing import Any

_PREFIX = "PerWorker"
_BASE, _ALPHA = 0.4, 7
# What an algorithm sets in the course of a run, of the types that have a per-worker form.
_VALUES = ("epsilon", "scale")


def plain_type(kind: str | None) -> str | None:
    """Return the type of exploration that each env runner has, e.g. EpsilonGreedy."""
    return None if kind is None else kind.removeprefix(_PREFIX)


def is_per_worker(kind: str | None) -> bool:
    """Tell whether a type of exploration differs between env runners."""
    return kind is not None and kind.startswith(_PREFIX)


def value_of(index: int, num_env_runners: int) -> float:
    """Epsilon, or the factor of the noise, of an env runner.

    Args:
        index: Of the env runner, from 1.
        num_env_runners: How many there are; a single one has 0.4.
    """
    others = max(1, num_env_runners - 1)
    return float(_BASE ** (1 + _ALPHA * (index - 1) / others))


def mean_value(num_env_runners: int) -> float:
    """Return the mean over all env runners."""
    indices = range(1, num_env_runners + 1)
    return sum(value_of(index, num_env_runners) for index in indices) / num_env_runners


def of_env_runner(values: dict[str, Any], index: int, num_env_runners: int) -> dict[str, Any]:
    """The present values of exploring, with those of an env runner in the place of the means."""
    own = value_of(index, num_env_runners)
    return {name: own if name in _VALUES else value for name, value in values.items()}
