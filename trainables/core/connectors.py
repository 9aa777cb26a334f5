"""What lies between an environment and a module: observation and action connectors."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trainables.core.distributions import Distribution, SquashedGaussian
from trainables.core.settings import ConfigError

_FILTER_CLIP = 10.0  # standard deviations; what lies beyond is an outlier, not a signal


class Preprocessor:
    """Raw observations as flat float32 features: boxes flattened, discrete ones one-hot.

    Attributes:
        num_features: Width of the features.

    Raises:
        ConfigError: if the space is not supported.
    """

    def __init__(self, space: gym.Space):
        self.space = space
        self._nvec: list[int] | None = None
        self._start: Tensor | None = None
        if isinstance(space, gym.spaces.Discrete):
            self._nvec, self._start = [int(space.n)], torch.tensor(int(space.start))
        elif isinstance(space, gym.spaces.MultiDiscrete) and space.nvec.ndim == 1:
            self._nvec = [int(n) for n in space.nvec]
            self._start = torch.as_tensor(np.asarray(space.start, dtype=np.int64))
        elif not (isinstance(space, gym.spaces.Box) and len(space.shape) <= 2):
            raise ConfigError(
                f"observation space {space} is not supported yet; supported: Box of rank 0 to 2, "
                "Discrete, MultiDiscrete (1-D)"
            )
        self._rank = len(space.shape or ())
        self.num_features = sum(self._nvec) if self._nvec else int(np.prod(space.shape or (1,)))

    def __call__(self, obs: Tensor) -> Tensor:
        """Features `[..., num_features]` of observations `[..., *space.shape]`."""
        if self._nvec is None:
            if self._rank == 1:
                return obs.to(torch.float32)
            return obs.reshape(*obs.shape[: obs.dim() - self._rank], self.num_features).to(
                torch.float32
            )
        assert self._start is not None
        index = obs.to(torch.int64) - self._start.to(obs.device)
        if self._rank == 0:
            return one_hot(index, self._nvec[0]).to(torch.float32)
        columns = [one_hot(part, n) for part, n in zip(index.unbind(-1), self._nvec, strict=True)]
        return torch.cat(columns, -1).to(torch.float32)


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
        rows = rows.astype(np.float64)
        mean = rows.mean(0)
        self._merge(len(rows), mean, np.square(rows - mean).sum(0))

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
        """Counts and moments."""
        return {"count": self.count, "mean": self.mean.copy(), "m2": self.m2.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self.count = int(state["count"])
        self.mean = np.asarray(state["mean"], dtype=np.float64).copy()
        self.m2 = np.asarray(state["m2"], dtype=np.float64).copy()


class MeanStdFilter:
    """Scales features by running statistics, which stay as they are until `merge` or `set_state`.

    Frozen in between, so that sampling, values and every epoch of an update see the same features
    and the probability ratio of the first epoch is exactly 1.
    """

    def __init__(self, size: int):
        self.moments = RunningMoments(size)
        self._refresh()

    def __call__(self, features: Tensor) -> Tensor:
        """Features with mean 0 and standard deviation 1, within 10 standard deviations."""
        mean, scale = self._mean.to(features.device), self._scale.to(features.device)
        return ((features - mean) * scale).clamp_(-_FILTER_CLIP, _FILTER_CLIP)

    def merge(self, moments: RunningMoments) -> None:
        """Take in statistics gathered elsewhere."""
        self.moments.merge(moments)
        self._refresh()

    def get_state(self) -> dict[str, Any]:
        """The statistics."""
        return self.moments.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over statistics."""
        self.moments.set_state(state)
        self._refresh()

    def _refresh(self) -> None:
        self._mean = torch.as_tensor(self.moments.mean, dtype=torch.float32)
        self._scale = torch.as_tensor(1 / self.moments.std, dtype=torch.float32)


class ActionConnector:
    """Actions as the distribution gives them -> actions as the environment takes them.

    Args:
        space: The environment's action space.
        distribution: Where actions come from.
        normalize: Stretch [-1, 1] to the bounds of a bounded Box, then clip to them.
        clip: Clip to the bounds without stretching.
    """

    def __init__(
        self, space: gym.Space, distribution: Distribution, *, normalize: bool, clip: bool
    ):
        self.space = space
        self._squashes = isinstance(distribution, SquashedGaussian)
        self._offset: np.ndarray | None = None
        self._stretch = self._clip = False
        if isinstance(space, gym.spaces.Box):
            bounded = np.isfinite(space.low) & np.isfinite(space.high)
            if self._squashes and not bounded.all():
                raise ConfigError(
                    f"model squash_actions=True needs a bounded action space, not {space}"
                )
            self._stretch = bool((normalize or self._squashes) and bounded.any())
            self._clip = normalize or clip
            low = np.where(bounded, space.low, -1).astype(np.float32)
            high = np.where(bounded, space.high, 1).astype(np.float32)
            self._center, self._half = (high + low) / 2, (high - low) / 2
        elif isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete)):
            start = np.asarray(space.start)
            self._offset = start if start.any() else None

    def __call__(self, actions: Tensor) -> np.ndarray:
        """Actions for the environment, `[N, *shape]`, of its dtype and inside its space."""
        if self._squashes:
            actions = actions.tanh()
        array = actions.cpu().numpy()
        if self._offset is not None:
            array = array + self._offset
        if isinstance(self.space, gym.spaces.Box):
            if self._stretch:
                array = self._center + array * self._half
            if self._clip:
                array = np.clip(array, self.space.low, self.space.high)
        return array.astype(self.space.dtype, copy=False)


def clip_rewards(rewards: Tensor, bound: bool | float | list[float] | None) -> Tensor:
    """What the learner sees of rewards, as the setting `clip_rewards` says.

    Args:
        rewards: Any shape.
        bound: None or False: as they are; True: their sign; c: within [-c, c]; [a, b]: within.
    """
    if bound is None or bound is False:
        return rewards
    if bound is True:
        return rewards.sign()
    low, high = bound if isinstance(bound, list) else (-bound, bound)
    return rewards.clamp(low, high)
