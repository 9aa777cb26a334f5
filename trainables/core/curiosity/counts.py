"""Counts of visited states: a bonus of `1 / sqrt(n(s'))` (Strehl and Littman, 2008).

States of discrete numbers are what they are. Those of continuous ones are cells, or the sides of
random planes (SimHash; Tang et al., 2017, arXiv 1611.04717, section 2.2). A fixed number of
counters holds them all by a hash.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.moments import RunningStatistics
from trainables.core.curiosity.novelty import Novelty
from trainables.core.curiosity.seen import Seen
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import VECTOR, Features, FeatureSpec
from trainables.core.learning.ranks import Ranks

_ROWS_AT_ONCE = 256  # images of a rollout as int64 would take gigabytes
_SEED = 20081  # of hashes: the same in every run, so that counts mean the same


class Counts(Novelty):
    """Counters of states.

    Args:
        spec: The policy's features.
        settings: The `exploration_config`.
    """

    has_size = True
    table: Tensor
    factors: Tensor
    planes: Tensor

    def __init__(self, spec: FeatureSpec, settings: ExplorationConfig):
        super().__init__()
        self.trained = None
        self._seen = Seen(spec, normalized=False)
        self._cells = settings.cells_per_deviation
        self._per_pixel = {path: 255 / image.scale for path, image in spec.images.items()}
        pixels = sum(torch.Size(image.shape).numel() for image in spec.images.values())
        self._num_pixels, width = pixels, spec.num_features + pixels  # images come first
        self.statistics = RunningStatistics((width,))
        generator = torch.Generator().manual_seed(_SEED)
        limit = torch.iinfo(torch.int64)
        factors = torch.randint(limit.min, limit.max, (width,), generator=generator)
        self.register_buffer("factors", factors | 1, persistent=False)
        bits = settings.hash_bits
        planes = torch.empty(0) if bits is None else torch.randn(width, bits, generator=generator)
        self.register_buffer("planes", planes, persistent=False)
        self.register_buffer("table", torch.zeros(settings.table_size, dtype=torch.int64))

    def observe(self, features: Features, ranks: Ranks) -> None:
        # Cells and planes stay where the first experience has put them.
        if not self.statistics.count:
            self.statistics.update(self._flat(features), ranks)
        for places in ranks.gather(self._places(features)):
            self.table.index_add_(0, places, torch.ones_like(places))

    def bonus(self, batch: Batch) -> Tensor:
        visits = self.table[self._places(tree_of(batch, "next_features"))]
        return visits.clamp_min(1).to(torch.float32).rsqrt()

    @property
    def num_states(self) -> Tensor:
        """How many states were visited; less what share a counter."""
        return torch.count_nonzero(self.table)

    def _places(self, features: Features) -> Tensor:
        """Return the counter of each state, `[M]`."""
        parts = self._seen.parts(features)
        starts = range(0, max(1, len(next(iter(parts.values())))), _ROWS_AT_ONCE)
        pieces = [{n: part[at : at + _ROWS_AT_ONCE] for n, part in parts.items()} for at in starts]
        keys = torch.cat([self._keys(self._flat(piece)) for piece in pieces])
        mixed = (keys ^ (keys >> 32)) * int(self.factors[0])
        return (mixed ^ (mixed >> 29)).remainder(len(self.table))

    def _keys(self, flat: Tensor) -> Tensor:
        """Return a number for each state of rows `[M, D]`, the same for the same one."""
        if len(self.planes):
            sides = (self.statistics.normalized(flat) @ self.planes > 0).to(torch.int64)
            return (sides << torch.arange(sides.shape[-1], device=flat.device)).sum(-1)
        first, statistics = self._num_pixels, self.statistics
        pixels, numbers = flat[:, :first], flat[:, first:]
        mean, std = statistics.mean[first:], statistics.std[first:]
        cells = ((numbers - mean) / std * self._cells).floor()
        states = torch.cat([pixels.round().to(torch.int64), cells.to(torch.int64)], -1)
        return (states * self.factors).sum(-1)  # modulo 2^64

    def _flat(self, features: Features) -> Tensor:
        """Return all that is seen as rows `[M, D]`: pixels from 0 to 255."""
        parts = [
            part if name == VECTOR else part.flatten(1).to(torch.float32) * self._per_pixel[name]
            for name, part in self._seen.parts(features).items()
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)
