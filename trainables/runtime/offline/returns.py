"""Discounted returns to the episodes' ends, of all rows of a data set: made once, then mapped."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from trainables.core.logs import logger
from trainables.runtime.offline.cache import make_file
from trainables.runtime.offline.columns import ColumnType, map_column, write_column
from trainables.runtime.offline.data_rows import RewardBound, bounded
from trainables.runtime.offline.data_set import DataSet

_KIND = ColumnType(np.dtype(np.float32))
_ROWS_AT_ONCE = 2**18


def returns_to_end(data: DataSet, gamma: float, reward_bound: RewardBound = False) -> np.ndarray:
    """Return the discounted sum of rewards from each row to its episode's last one, `[num_rows]`.

    They lie in a file beside the data, one for each discount factor that was asked for.

    Args:
        data: The data set.
        gamma: Discount factor.
        reward_bound: What is learned from of a reward.

    Raises:
        DataError: if the file cannot be written.
    """
    said = f"{float(gamma).hex()} {reward_bound!r}"
    name = hashlib.sha256(said.encode()).hexdigest()[:16]
    path = data.folder / f"returns-{name}.column"

    def make(part: Path) -> None:
        logger.info("%s: making the returns of %d rows", data.name, data.num_rows)
        raw = part.with_suffix(".raw")
        try:
            _write(raw, data, float(gamma), reward_bound)
            write_column(raw, part, _KIND, data.num_rows)
        finally:
            raw.unlink(missing_ok=True)

    for _ in range(2):
        make_file(path, data.name, make)
        try:
            return map_column(path, _KIND, data.num_rows, at_random=False)
        except (ValueError, OSError) as error:
            logger.warning("%s is damaged (%s): it is made again", path, error)
            path.unlink(missing_ok=True)
    make_file(path, data.name, make)
    return map_column(path, _KIND, data.num_rows, at_random=False)


def _write(raw: Path, data: DataSet, gamma: float, reward_bound: RewardBound) -> None:
    """Write the numbers, from the last row to the first: R[t] = r[t] + gamma R[t+1], in float64."""
    rewards, valid = data.columns["rewards"], data.columns["valid"]
    following = 0.0
    with raw.open("wb") as file:
        for start in reversed(range(0, data.num_rows, _ROWS_AT_ONCE)):
            rows = slice(start, min(start + _ROWS_AT_ONCE, data.num_rows))
            earned = bounded(rewards[rows], reward_bound).astype(np.float64)
            # A row that is not valid ends the episode before it.
            factors = np.where(valid[rows], gamma, 0.0)
            returns = np.empty(len(earned), np.float32)
            sums = []
            for reward, factor in zip(earned[::-1].tolist(), factors[::-1].tolist(), strict=True):
                following = reward + factor * following
                sums.append(following)
            returns[::-1] = sums
            file.seek(start * _KIND.nbytes)
            file.write(returns.data)
