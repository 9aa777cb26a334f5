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
        self._scales = {path: image.scale for path, image in spec.images.items()}
        self.statistics = RunningStatistics((spec.num_features,))
        width = spec.num_features + sum(
            torch.Size(image.shape).numel() for image in spec.images.values()
        )
        generator = torch.Generator().manual_seed(_SEED)
        limit = torch.iinfo(torch.int64)
        factors = torch.randint(limit.min, limit.max, (width,), generator=generator)
        self.register_buffer("factors", factors | 1, persistent=False)
        bits = settings.hash_bits
        planes = torch.empty(0) if bits is None else torch.randn(width, bits, generator=generator)
        self.register_buffer("planes", planes, persistent=False)
        self.register_buffer("table", torch.zeros(settings.table_size, dtype=torch.int64))

    def observe(self, batch: Batch, ranks: Ranks) -> None:
        features = tree_of(batch, "next_features")
        # Cells stay where the first experience has put them.
        if self.statistics.mean.numel() and not self.statistics.count:
            self.statistics.update(self._seen.parts(features)[VECTOR], ranks)
        for places in ranks.gather(self._places(features)):
            self.table += torch.bincount(places, minlength=len(self.table))

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
        columns = []
        for name, part in parts.items():
            if name == VECTOR:
                scaled = self.statistics.normalized(part)
            else:
                scaled = part.flatten(1).to(torch.float32) / self._scales[name]
            if not len(self.planes):
                per_unit = self._cells if name == VECTOR else 255.0
                shift = 0.5 if name != VECTOR else 0.0
                scaled = (scaled * per_unit + shift).floor()
            columns.append(scaled)
        row = torch.cat(columns, -1)
        if len(self.planes):
            sides = (row @ self.planes > 0).to(torch.int64)
            keys = (sides << torch.arange(sides.shape[-1], device=row.device)).sum(-1)
        else:
            keys = (row.to(torch.int64) * self.factors).sum(-1)  # modulo 2^64
        mixed = (keys ^ (keys >> 32)) * int(self.factors[0])
        return (mixed ^ (mixed >> 29)).remainder(len(self.table))
