"""What holds of every episode that is learned from, whatever it was read by."""

from __future__ import annotations

import numpy as np

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.spaces import PLAIN
from trainables.runtime.offline.checks import Place, check_finite, fitted
from trainables.runtime.offline.episode import DataSpaces, Episode


class EpisodeCheck:
    """Checks that episodes are of their spaces, and that all of them is finite.

    Args:
        spaces: What observations and actions must be of.
    """

    def __init__(self, spaces: DataSpaces):
        self._obs, self._actions = spaces.obs_layout, spaces.action_layout

    def __call__(self, episode: Episode) -> None:
        """Check an episode.

        Raises:
            DataError: naming file, row and column.
        """
        length = len(episode.rewards)
        at = Place(episode.file, episode.row)
        _check_rows(episode.obs, length + 1, self._obs, at.of("obs"), bounded=False)
        _check_rows(episode.actions, length, self._actions, at.of("actions"), bounded=True)
        for name, column in (("rewards", episode.rewards), ("logp", episode.logp)):
            if column is None:
                continue
            if column.shape != (length,) or column.dtype != np.float32:
                found = f"{column.dtype} {column.shape}"
                raise at.of(name).error(f"values are {found}, not float32 {(length,)}")
            if name == "rewards":
                check_finite(column, at.of(name))


def _check_rows(
    rows: np.ndarray, length: int, layout: ObservationLayout, at: Place, *, bounded: bool
) -> None:
    """Check rows that should be `[length, *shape]` of a layout."""
    if rows.dtype != layout.dtype or rows.shape != (length, *layout.shape):
        raise at.error(
            f"values are {rows.dtype} {rows.shape}, not {layout.dtype} {(length, *layout.shape)}"
        )
    leaves = layout.leaves(rows)
    for path, space in layout.leaf_spaces.items():
        leaf = at if path == PLAIN else at.of(f"{at.column}/{path}")
        fitted(leaves[path], space, leaf, bounded=bounded)
