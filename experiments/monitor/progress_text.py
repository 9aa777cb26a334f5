"""How progress is put into words: numbers, times, which trials and which settings are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.names import ENV_STEPS, SECONDS
from analysis.results.rows import flatten

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


def varying_settings(trials: list[Trial]) -> dict[str, None]:
    """Returns the searched settings, in their order, that differ between trials or have changed.

    With fewer than two trials all searched settings count.
    """
    searched: dict[str, set[str]] = {}
    for trial in trials:
        drawn = flatten(trial.evaluated_params or {})
        for key, value in searched_settings(trial).items():
            searched.setdefault(key, set()).update((repr(drawn[key]), repr(value)))
    return {k: None for k, values in searched.items() if len(trials) < 2 or len(values) > 1}


def searched_settings(trial: Trial) -> dict[str, Any]:
    """Returns a trial's searched settings as they are now: a population changes them."""
    drawn, config = flatten(trial.evaluated_params or {}), flatten(trial.config or {})
    return {key: config.get(key, value) for key, value in drawn.items()}


def select_rows(ranked: list[Trial], limit: int) -> list[Trial]:
    """Returns at most `limit` of the trials, in their order: the best, and the best running ones.

    Args:
        ranked: best first.
        limit: there is room for; what the running ones leave the best of the others have.
    """
    others = ranked[1:]  # the first is always shown, whatever runs
    by_need = [*ranked[:1], *sorted(others, key=lambda trial: trial.status != "RUNNING")]
    shown = {trial.trial_id for trial in by_need[:limit]}
    return [trial for trial in ranked if trial.trial_id in shown]


def value_of(trial: Trial, metric: str) -> float | None:
    """Returns the last value of a metric; None if there is none, or no finite one."""
    value = (trial.last_result or {}).get(metric)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def short(value: Any, digits: int = 4) -> str:
    """Returns a value as a table shows it: so many significant digits, nothing for None.

    Whole digits are kept up to ten million: 12346 rather than 1.235e+04.
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if 10.0**digits <= abs(value) < 1e7 else f"{value:.{digits}g}"
    if isinstance(value, Mapping) or callable(value):
        return getattr(value, "__name__", "...")
    text = str(value)
    return text if len(text) <= 16 else f"{text[:9]}…{text[-6:]}"  # an end may be all that differs


def cell(value: Any) -> str:
    """A value as a table shows it: four digits, thousands apart, a dash for none."""
    if value is None or str(value) in ("nan", "<NA>"):
        return "–"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def count(value: Any) -> str:
    """Returns a whole number with separators, nothing for None."""
    return "" if value is None else f"{int(value):,}"


def large(value: float) -> str:
    """Returns a large number in short: 950, 12.5k, 3.2M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.4g}"


def spent(result: Mapping[str, Any]) -> str:
    """Returns what a trial has spent: env steps, or time where it does not count them."""
    if ENV_STEPS in result:
        return f"env steps={count(result[ENV_STEPS])}"
    seconds = result.get(SECONDS)
    return "" if seconds is None else f"time={clock(seconds)}"


def clock(seconds: float) -> str:
    """Returns a duration as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
