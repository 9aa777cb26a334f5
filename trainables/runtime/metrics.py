"""Episode statistics over a sliding window, means of losses, and phase timers."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from trainables.runtime.callbacks.custom_metrics import CustomMetrics
from trainables.runtime.sampling.sampling_worker import Episodes


class EpisodeWindow:
    """Returns and lengths of the last episodes.

    The window holds `size` episodes, or all of the current iteration if those are more.

    Attributes:
        custom: What callbacks have logged.
        matches: The games that have ended since they were taken last, where a league plays.
    """

    def __init__(self, size: int):
        self._episodes: deque[tuple[float, int]] = deque()
        self._size = size
        self._num_new = 0
        self.num_lifetime = 0
        self.num_restarts = 0
        self.custom = CustomMetrics(size)
        self.matches: list[Any] = []

    def add(self, episodes: Episodes) -> None:
        """Take in episodes that ended."""
        self._episodes.extend(zip(episodes.returns, episodes.lengths, strict=True))
        self._num_new += len(episodes.returns)
        self.num_lifetime += len(episodes.returns)
        self.num_restarts += episodes.num_restarts
        self.custom.add(episodes.logged)
        self.matches += episodes.matches
        while len(self._episodes) > max(self._size, self._num_new):
            self._episodes.popleft()

    def take_matches(self) -> list[Any]:
        """Return the games that have ended since the last call."""
        matches, self.matches = self.matches, []
        return matches

    def metrics(self) -> dict[str, float]:
        """Return statistics of the window, NaN before the first episode; start a new iteration."""
        unknown = [math.nan]
        returns = [episode[0] for episode in self._episodes] or unknown
        lengths = [episode[1] for episode in self._episodes] or unknown
        num_new, self._num_new = self._num_new, 0
        return {
            "episode_return_mean": sum(returns) / len(returns),
            "episode_return_min": min(returns),
            "episode_return_max": max(returns),
            "episode_len_mean": sum(lengths) / len(lengths),
            "num_episodes": num_new,
            "num_episodes_lifetime": self.num_lifetime,
            "num_sub_environment_restarts": self.num_restarts,
        }

    def get_state(self) -> dict[str, Any]:
        """Return the window."""
        return {
            "episodes": [list(e) for e in self._episodes],
            "num_lifetime": self.num_lifetime,
            "num_restarts": self.num_restarts,
            "custom": self.custom.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self._episodes = deque((float(ret), int(length)) for ret, length in state["episodes"])
        self.num_lifetime = int(state["num_lifetime"])
        self.num_restarts = int(state.get("num_restarts", 0))
        self.custom.set_state(state.get("custom", []))


class Timers:
    """Seconds spent per phase of an iteration."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - start

    def metrics(self) -> dict[str, float]:
        """Return `time/<phase>_s` of this iteration; start a new one."""
        seconds, self._seconds = self._seconds, {}
        return {f"time/{phase}_s": value for phase, value in seconds.items()}


class TensorMeans:
    """Means of scalar tensors over many updates: one transfer from the device when they are taken.

    Before the first update there are none; from then on the last ones stay until there are new
    ones, since a metric that Tune has seen must not go away.
    """

    def __init__(self) -> None:
        self._scalars: list[Tensor] = []
        self._names: list[str] = []
        self._last: dict[str, float] = {}

    def add(self, names: list[str], scalars: Tensor) -> None:
        """Take in the scalars of some updates.

        Args:
            names: Names of the scalars, always the same ones.
            scalars: Their values in each update, `[num_updates, len(names)]`.
        """
        self._names = names
        self._scalars.append(scalars)  # summed up later, in one operation for all updates

    def take(self) -> dict[str, float]:
        """Return means since the last call."""
        if self._scalars:
            means = torch.cat(self._scalars).double().mean(0).tolist()
            self._last = dict(zip(self._names, means, strict=True))
            self._scalars = []
        return dict(self._last)

    def get_state(self) -> dict[str, Any]:
        """Return what was taken last, between iterations: what is being summed is no part."""
        return {"last": dict(self._last)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self._last, self._scalars = dict(state["last"]), []


def reserved(trial_info: Any) -> dict[str, float]:
    """Return the metrics `num_cpus` and `num_gpus`: what Tune holds for a trial in all bundles.

    A scheduler may give it more than its config asks for, and change that on the way.

    Args:
        trial_info: What Tune tells a trainable of its trial; None outside Tune: then nothing is
            held.
    """
    request = getattr(trial_info, "trial_resources", None)
    if request is None:
        return {}
    held = request.required_resources
    return {"num_cpus": float(held.get("CPU", 0)), "num_gpus": float(held.get("GPU", 0))}
