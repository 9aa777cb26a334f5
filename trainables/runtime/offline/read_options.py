"""What `input_config` says of reading files, whatever their format."""

from __future__ import annotations

from dataclasses import dataclass

CLIP_HINT = (
    "; input_config={'clip_actions': True} clips actions to the bounds, "
    "actions_in_input_normalized=True takes them as in [-1, 1]"
)
"""What to do about actions outside of a Box, to end messages with."""


@dataclass(frozen=True)
class ReadOptions:
    """How recorded values are taken.

    Attributes:
        clip_actions: Whether actions outside of a Box's bounds are clipped to them, not refused:
            RLlib records Gaussian actions as they were drawn.
    """

    clip_actions: bool = False
