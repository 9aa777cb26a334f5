"""What the networks of an intrinsic reward see of observations, and in what scale."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import torch
from torch import Tensor, nn

from trainables.core.curiosity.moments import RunningStatistics
from trainables.core.data.features import VECTOR, Features, FeatureSpec, vector_of
from trainables.core.learning.ranks import Ranks

_CLIP = 5.0  # standard deviations (Burda et al., 2018, section 2.4)


class Seen(nn.Module):
    """Features in the scale that networks see them in.

    Action masks, and the previous action and reward that a memory sees, are no part of it: from the
    previous action alone an inverse model would know what was done.

    Args:
        spec: The policy's features.
        normalized: Whether numbers and pixels are seen by their running means and deviations.

    Attributes:
        spec: What comes out.
    """

    def __init__(self, spec: FeatureSpec, normalized: bool):
        super().__init__()
        images = spec.images
        if normalized:
            images = {path: replace(image, scale=1.0) for path, image in images.items()}
        self.spec = FeatureSpec(spec.num_features, images, spec.slices)
        shapes = {path: image.shape for path, image in spec.images.items()}
        if spec.num_features:
            shapes[VECTOR] = (spec.num_features,)  # type: ignore[assignment]
        self._names = list(shapes)
        statistics = [RunningStatistics(shape) for shape in shapes.values()] if normalized else []
        self.statistics = nn.ModuleList(statistics)

    def parts(self, features: Features) -> dict[str, Tensor]:
        """Return what is seen by name, as it was stored; images stay bytes."""
        if not isinstance(features, dict):
            return {VECTOR: features}
        return {name: features[name] for name in self._names}

    def observe(self, features: Features, ranks: Ranks) -> None:
        """Take the rows of all ranks, `[M, …]`, into the statistics."""
        if not self.statistics:
            return
        parts = self.parts(features).values()
        for part, statistics in zip(parts, self.statistics, strict=True):
            assert isinstance(statistics, RunningStatistics)
            statistics.update(part, ranks)

    def forward(self, features: Features) -> Features:
        """Return features `[…, …]` as the networks see them, for an encoder of `spec`."""
        parts = self.parts(features)
        for (name, part), statistics in zip(parts.items(), self.statistics, strict=False):
            assert isinstance(statistics, RunningStatistics)
            parts[name] = statistics.normalized(part).clamp_(-_CLIP, _CLIP)
        if self.spec.is_vector:
            return parts[VECTOR].float()
        return parts


MOST_STATES = 100_000


class StateVisits(nn.Module):
    """Counts of the states of a Discrete space.

    Args:
        num_states: How many there are.
    """

    counts: Tensor

    def __init__(self, num_states: int):
        super().__init__()
        self.register_buffer("counts", torch.zeros(num_states, dtype=torch.int64))

    def update(self, features: Features, ranks: Ranks) -> None:
        """Count the states of all ranks, one-hot rows `[M, num_states]`."""
        vector = vector_of(features)
        assert vector is not None
        counts = torch.bincount(vector.argmax(-1), minlength=len(self.counts))
        self.counts += ranks.sum(counts)

    @property
    def num_states(self) -> Tensor:
        """How many states were there at all."""
        return torch.count_nonzero(self.counts)


def visits_of(space: gym.Space) -> StateVisits | None:
    """Return counters of an observation space's states; None if it is not Discrete, or large."""
    if isinstance(space, gym.spaces.Discrete) and space.n <= MOST_STATES:
        return StateVisits(int(space.n))
    return None
