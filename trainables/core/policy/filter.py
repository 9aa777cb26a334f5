"""The observation filter: features scaled by running means and standard deviations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.stored import like

_FILTER_CLIP = 10.0  # standard deviations; what lies beyond is an outlier, not a signal


class RunningMoments:
    """Count, mean and sum of squared deviations of vectors, mergeable (Chan et al., 1979)."""

    def __init__(self, size: int):
        self.count = 0
        self.mean = np.zeros(size)
        self.m2 = np.zeros(size)

    def update(self, rows: np.ndarray) -> None:
        """Count each row of `[R, size]` once."""
        if len(rows) == 0:
            return
        first = rows[0].astype(np.float64)
        # From the first row on: sums of numbers far from 0 would be rounded, also those of a
        # constant, whose deviation is 0.
        deviations = rows - first
        mean = deviations.mean(0)
        self._merge(len(rows), first + mean, np.square(deviations - mean).sum(0))

    def merge(self, other: RunningMoments) -> None:
        """Take in what `other` has counted."""
        if other.count:
            self._merge(other.count, other.mean, other.m2)

    def _merge(self, count: int, mean: np.ndarray, m2: np.ndarray) -> None:
        total = self.count + count
        delta = mean - self.mean
        self.mean = self.mean + delta * (count / total)
        self.m2 = self.m2 + m2 + np.square(delta) * (self.count * count / total)
        self.count = total

    @property
    def std(self) -> np.ndarray:
        """Standard deviation, `[size]`; 1 before the second row and for constant elements."""
        std = np.sqrt(self.m2 / max(1, self.count - 1))
        return np.where(std > 1e-8, std, 1.0)

    def get_state(self) -> dict[str, Any]:
        """Return count and moments."""
        return {"count": self.count, "mean": self.mean.copy(), "m2": self.m2.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned."""
        self.count = int(state["count"])
        self.mean = like(self.mean, state["mean"], "mean")
        self.m2 = like(self.m2, state["m2"], "m2")


class MeanStdFilter:
    """A scale of features by running statistics, which change by `merge` and `set_state` alone.

    Frozen in between, so that sampling, values and every epoch of an update see the same features
    and the probability ratio of the first epoch is exactly 1.
    """

    def __init__(self, size: int):
        self.moments = RunningMoments(size)
        self._refresh()

    def __call__(self, features: Tensor) -> Tensor:
        """Return features with mean 0 and deviation 1, clipped to 10 deviations, as float32.

        The mean is taken off in float64: what is far from 0, as times are, differs in digits that
        float32 does not have.
        """
        mean, scale = self._mean.to(features.device), self._scale.to(features.device)
        return ((features - mean) * scale).clamp_(-_FILTER_CLIP, _FILTER_CLIP).to(torch.float32)

    def merge(self, moments: RunningMoments) -> None:
        """Take in statistics gathered elsewhere."""
        self.moments.merge(moments)
        self._refresh()

    def get_state(self) -> dict[str, Any]:
        """Return the statistics."""
        return self.moments.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over statistics."""
        self.moments.set_state(state)
        self._refresh()

    def _refresh(self) -> None:
        self._mean = torch.as_tensor(self.moments.mean)
        self._scale = torch.as_tensor(1 / self.moments.std)
