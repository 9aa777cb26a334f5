"""Actions as files hold them, which may be normalised, as the environment took them."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np

from trainables.runtime.offline.checks import Place, fitted
from trainables.runtime.offline.read_options import ReadOptions

_HINT = (
    "; input_config={'clip_actions': True} clips actions to the bounds, "
    "actions_in_input_normalized=True stretches those in [-1, 1] to them"
)
_HINT_NORMALIZED = "; input_config={'clip_actions': True} clips actions to [-1, 1]"


def fitted_actions(
    values: np.ndarray, space: gym.Space, at: Place, options: ReadOptions
) -> np.ndarray:
    """Return recorded actions of a leaf as rows of its space.

    Args:
        values: As `fitted` takes them, `[N, *shape]`.
        space: The leaf of the environment's action space.
        at: Where they stand.
        options: How they are taken.

    Returns:
        Rows `[N, *shape]` of the space's type, within its bounds.

    Raises:
        DataError: as `fitted`, also for what lies outside of the bounds.
    """
    clip = options.clip_actions
    is_float_box = isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)
    if not (options.actions_normalized and is_float_box):
        return fitted(values, space, replace(at, hint=_HINT), bounded=True, clip=clip)
    assert isinstance(space, gym.spaces.Box)
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, -1, space.low), np.where(bounded, 1, space.high)
    unit = gym.spaces.Box(low.astype(np.float64), high.astype(np.float64), dtype=np.float64)
    rows = fitted(values, unit, replace(at, hint=_HINT_NORMALIZED), bounded=True, clip=clip)
    # Halves first: the width of the widest Box is not finite.
    low, high = (
        np.where(bounded, end, 0).astype(np.float64) / 2 for end in (space.low, space.high)
    )
    stretched = np.where(bounded, (high + low) + rows * (high - low), rows)
    return stretched.astype(space.dtype).clip(space.low, space.high)
