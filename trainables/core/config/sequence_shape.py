"""The rows of sequences that are drawn from a replay buffer."""

from __future__ import annotations

from typing import NamedTuple


class SequenceShape(NamedTuple):
    """How many rows a sequence has of each kind.

    Attributes:
        burn_in: Unrolled without a gradient first.
        length: Trained on.
        n_step: Steps of the return at most.
    """

    burn_in: int
    length: int
    n_step: int

    @property
    def num_rows(self) -> int:
        """Rows to draw; the observation after the last of them is drawn, too."""
        return self.burn_in + self.length + self.n_step - 1
