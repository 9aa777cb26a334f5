"""What `input_config` says of reading files, whatever their format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """How recorded values are taken.

    Attributes:
        clip_actions: Whether actions outside of a Box's bounds are clipped to them, not refused:
            RLlib records Gaussian actions as they were drawn.
        actions_normalized: Whether Boxes of floats with bounds hold actions in [-1, 1], to be
            stretched to the bounds at the draw.
    """

    clip_actions: bool = False
    actions_normalized: bool = False
