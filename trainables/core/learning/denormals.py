"""Numbers too small for the format's own precision, which processors compute with slowly."""

from __future__ import annotations

import torch

_SMALLEST = 5e-324  # a denormal number: where those are flushed, it counts as 0


class FlushedDenormals:
    """A context in which this thread's denormal numbers are 0, as `torch.set_flush_denormal` says.

    The moments of a unit that is never active halve and halve until they are denormal, and stay
    there: an optimiser's step then takes up to seven times as long, and moves no weight by them.
    Outside of it they are left alone: what environments compute is theirs.
    """

    def __enter__(self) -> None:
        self._were_flushed = _SMALLEST * 1.0 == 0.0
        torch.set_flush_denormal(True)

    def __exit__(self, *_: object) -> None:
        if not self._were_flushed:
            torch.set_flush_denormal(False)
