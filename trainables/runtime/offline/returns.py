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
from trainables.runtime.replay.draws import Windows

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
            earned = bounded(rewards[rows], reward_bound)
            returns, following = discounted_sums(earned, valid[rows], gamma, following)
            file.seek(start * _KIND.nbytes)
            file.write(returns.data)


def discounted_sums(
    rewards: np.ndarray, valid: np.ndarray, gamma: float, following: float = 0.0
) -> tuple[np.ndarray, float]:
    """Return discounted sums from each row to its episode's end, made in float64.

    Args:
        rewards: Of consecutive rows, `[M]`.
        valid: Which rows are steps, `[M]`: one that is not ends the episode before it.
        gamma: Discount factor.
        following: The sum from the row after the last one.

    Returns:
        The sums, `[M]`, float32, and that of the first row.
    """
    factors = np.where(valid, gamma, 0.0)[::-1].tolist()
    sums = []
    for reward, factor in zip(rewards[::-1].tolist(), factors, strict=True):
        following = reward + factor * following
        sums.append(following)
    return np.array(sums[::-1], np.float32), following


def windows_to_end(data: DataSet, returns: np.ndarray, ids: np.ndarray, gamma: float) -> Windows:
    """Return the windows from valid rows `[M]` to the ends of their episodes.

    Args:
        data: The data set.
        returns: What `returns_to_end` gives of it, `[num_rows]`.
        ids: Their first rows, `[M]`.
        gamma: Discount factor.
    """
    first_rows = data.first_rows
    # Before the next episode's first row lies the one with the last observation.
    last = first_rows.take(np.searchsorted(first_rows, ids, side="right")) - 2
    n_steps = last - ids + 1
    discounts = np.power(float(gamma), n_steps).astype(np.float32)
    discounts[data.columns["terminated"].take(last)] = 0
    return Windows(last, n_steps, returns.take(ids), discounts)
