"""Numbers that users' callbacks log, and what results say of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from statistics import fmean
from typing import Any

from trainables.core.data.episode_base import EpisodeMetrics, checked_number
from trainables.core.errors import ConfigError

PREFIX = "custom_metrics/"
HISTOGRAMS = "hist_stats/"
OWN = "/"
"""Begins the names of metrics that are no user's: results have them without it, and no prefix."""

Entry = float | tuple[float, ...]
"""A value, or all values of one episode, which a window keeps or loses together."""
Logged = dict[tuple[str, str], list[Entry]]
"""Entries in order, by a metric's name and how their values are reduced."""

_REDUCTIONS: dict[str, Callable[[Collection[float]], float]] = {
    "mean": fmean,
    "min": min,
    "max": max,
    "sum": sum,
}
# What results say of the values that episodes have.
_OF_EPISODES = ("mean", "min", "max")


class MetricsLogger:
    """Takes the numbers that callbacks log."""

    def __init__(self) -> None:
        self._logged: Logged = {}

    def log_value(self, name: str, value: float, reduce: str = "mean") -> None:
        """Log a number; results have it as `custom_metrics/<name>_<reduce>`.

        Args:
            name: The metric's.
            value: A finite number.
            reduce: 'mean', 'min' or 'max' of the window of last values, or 'sum' of those of one
                training iteration.

        Raises:
            ConfigError: naming the metric and what is wrong with it.
        """
        if reduce not in _REDUCTIONS:
            raise ConfigError(
                f"custom metric {name!r}: reduce = {reduce!r} is not allowed; allowed: one of "
                f"{', '.join(_REDUCTIONS)}"
            )
        self._logged.setdefault((name, reduce), []).append(checked_number(name, value))

    def log_together(self, name: str, values: Iterable[float]) -> None:
        """Log numbers of one episode, of which results have the mean, the least and the greatest.

        Args:
            name: The metric's.
            values: Finite numbers; where there is none, nothing is logged.

        Raises:
            ConfigError: naming the metric and what is wrong with it.
        """
        numbers = tuple(checked_number(name, value) for value in values)
        for reduce in _OF_EPISODES if numbers else ():
            self._logged.setdefault((name, reduce), []).append(numbers)

    def log_episode(self, metrics: EpisodeMetrics) -> None:
        """Log what an episode that ended has gathered."""
        for name, value in metrics.items():
            for reduce in _OF_EPISODES:
                self.log_value(name, value, reduce)

    def log_histograms(self, histograms: dict[str, Any]) -> None:
        """Log the lists of values that an episode which ended has gathered.

        Raises:
            ConfigError: naming the list that holds something else than finite numbers.
        """
        for name, values in histograms.items():
            if not isinstance(values, Iterable) or isinstance(values, str):
                raise ConfigError(f"hist_data {name!r} = {values!r} is no list of numbers")
            numbers = [checked_number(name, value) for value in values]  # by the user's name
            self.log_together(f"{HISTOGRAMS}{name}", numbers)

    def take(self) -> Logged:
        """Return what was logged since the last call."""
        logged, self._logged = self._logged, {}
        return logged


def extend(logged: Logged, more: Logged) -> None:
    """Append the entries of `more`."""
    for key, entries in more.items():
        logged.setdefault(key, []).extend(entries)


def reduced(logged: Logged) -> dict[str, float]:
    """Return flat metrics of all values."""
    return {
        f"{_shown(name)}_{reduce}": _REDUCTIONS[reduce](_values(entries))
        for (name, reduce), entries in logged.items()
    }


def _values(entries: Iterable[Entry]) -> list[float]:
    """Return the values of all entries."""
    values: list[float] = []
    for entry in entries:
        values += entry if isinstance(entry, tuple) else (entry,)
    return values


def _shown(name: str) -> str:
    if name.startswith(OWN):
        return name.removeprefix(OWN)
    return name if name.startswith(HISTOGRAMS) else f"{PREFIX}{name}"


class CustomMetrics:
    """Custom metrics over sliding windows.

    Each holds its last `size` entries, or all of the current iteration if those are more, as the
    window of episodes does. A metric that was there once stays: Tune's users stop and plot by it.
    """

    def __init__(self, size: int):
        self._size = size
        self._windows: dict[tuple[str, str], deque[Entry]] = {}
        self._num_new: dict[tuple[str, str], int] = {}

    def add(self, logged: Logged) -> None:
        """Take in new entries."""
        for key, entries in logged.items():
            window = self._windows.setdefault(key, deque())
            window.extend(entries)
            self._num_new[key] = self._num_new.get(key, 0) + len(entries)
            while len(window) > max(self._size, self._num_new[key]):
                window.popleft()

    def metrics(self) -> dict[str, float]:
        """Return flat metrics of the windows."""
        logged: Logged = {key: list(window) for key, window in self._windows.items()}
        for key in logged:
            if key[1] == "sum":  # of this iteration
                num_old = len(logged[key]) - self._num_new.get(key, 0)
                logged[key] = logged[key][num_old:] or [0.0]
        return reduced(logged)

    def next_iteration(self) -> None:
        """Begin a new iteration."""
        self._num_new = {}

    def get_state(self) -> list[list[Any]]:
        """Return the windows."""
        return [
            [*key, [[*entry] if isinstance(entry, tuple) else entry for entry in window]]
            for key, window in self._windows.items()
        ]

    def set_state(self, state: Iterable[Any]) -> None:
        """Take over `get_state`'s."""
        self._windows = {
            (name, reduce): deque(
                tuple(map(float, entry)) if isinstance(entry, list) else float(entry)
                for entry in entries
            )
            for name, reduce, entries in state
        }
        self._num_new = {}
