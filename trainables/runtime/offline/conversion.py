"""The way from a source's episodes to columns of one slot's time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.spaces import leaf_spaces
from trainables.core.logs import logger
from trainables.runtime.offline.columns import ColumnType, ColumnWriter
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.episode_checks import EpisodeCheck
from trainables.runtime.offline.source import Source

_FLAGS = ("terminated", "truncated", "is_first", "valid")
_SECONDS_TO_PROGRESS = 10.0

EPISODES = ColumnType(
    np.dtype(
        [
            ("first_row", np.int64),
            ("length", np.int64),
            ("return", np.float64),
            ("terminated", bool),
            ("truncated", bool),
            ("first_step", np.int64),
            ("file", np.int64),
            ("row", np.int64),
        ],
        align=True,
    )
)
"""What is kept of an episode: its first row and how many it has, the sum of its rewards, how it
ended (neither: its recording ends amid it), the step that its first row is, and where it was read
from, as a number of a file and of a row there."""
COUNT = ColumnType(np.dtype(np.int64))


def column_types(spaces: DataSpaces) -> dict[str, ColumnType]:
    """Return what a row is of each column."""
    number, flag = ColumnType(np.dtype(np.float32)), ColumnType(np.dtype(bool))
    obs, actions = spaces.obs_layout, spaces.action_layout
    return {
        "obs": ColumnType(obs.dtype, obs.shape),
        "actions": ColumnType(actions.dtype, actions.shape),
        "rewards": number,
        "logp": number,
        **dict.fromkeys(_FLAGS, flag),
    }


def column_path(folder: Path, name: str) -> Path:
    """Return the file of a column."""
    return folder / f"{name}.arrow"


def convert(source: Source, spaces: DataSpaces, folder: Path) -> dict[str, Any]:
    """Write what a source has recorded as columns into an empty folder, in bounded memory.

    Returns:
        `num_rows`, `num_steps`, `num_episodes`, and the names of the `files`.

    Raises:
        DataError: naming what is wrong with the data, or if there is no step in them.
    """
    writer, check = _DataSetWriter(folder, spaces), EpisodeCheck(spaces)
    try:
        for episode in _with_progress(source, spaces, writer):
            check(episode)
            writer.add(_unclipped(episode, spaces) if source.options.clip_actions else episode)
        if not writer.num_steps:
            raise DataError(f"{source.name} holds no step to learn from")
        return writer.close()
    finally:
        writer.discard()


def _with_progress(source: Source, spaces: DataSpaces, writer: _DataSetWriter) -> Iterator[Episode]:
    """Yield a source's episodes, and log now and then how far that is."""
    start = said = time.monotonic()
    numbers = {name: number for number, name in enumerate(source.files, 1)}
    for episode in source.episodes(spaces):
        now = time.monotonic()
        if now - said > _SECONDS_TO_PROGRESS:
            said = now
            logger.warning(
                "converting %s: %d steps after %.0f s, file %s of %d",
                source.name,
                writer.num_steps,
                now - start,
                numbers.get(episode.file, "?"),
                len(numbers),
            )
        yield episode


class _DataSetWriter:
    """Lays episodes one behind another: rows, then one that holds the last observation.

    Pieces of an episode that follow each other, as first steps and ids say, become one again.
    """

    def __init__(self, folder: Path, spaces: DataSpaces):
        types = column_types(spaces)
        self._columns = {n: ColumnWriter(column_path(folder, n), t) for n, t in types.items()}
        self._episodes = ColumnWriter(column_path(folder, "episodes"), EPISODES)
        self._first_rows = ColumnWriter(column_path(folder, "first_rows"), COUNT)
        self._steps_before = ColumnWriter(column_path(folder, "steps_before"), COUNT)
        self._nothing = {
            name: np.zeros((1, *kind.shape), kind.dtype) for name, kind in types.items()
        }
        self._nothing["logp"] = np.full(1, np.nan, np.float32)
        self._files: dict[str, int] = {}
        self._row: np.ndarray = np.zeros(1, EPISODES.dtype)  # of the episode that is being written
        self._last: Episode | None = None  # its latest piece
        self.num_steps = 0

    @property
    def num_rows(self) -> int:
        return self._columns["obs"].num_rows

    def add(self, episode: Episode) -> None:
        """Write an episode, or a piece of one."""
        length = len(episode)
        if not length:
            return
        goes_on = self._last is not None and _goes_on(self._last, episode)
        if not goes_on:
            self._end()
            self._begin(episode)
        row = self._row
        row["length"] += length
        row["return"] += episode.rewards.sum(dtype=np.float64)
        row["terminated"], row["truncated"] = episode.terminated, episode.truncated
        self._write(episode, is_first=not goes_on)
        self.num_steps += length
        self._last = episode

    def _write(self, episode: Episode, *, is_first: bool) -> None:
        length = len(episode)
        flags = {name: np.zeros(length, bool) for name in _FLAGS}
        flags["valid"][:] = True
        flags["is_first"][0] = is_first
        flags["terminated"][-1] = episode.terminated
        flags["truncated"][-1] = episode.truncated
        logp = episode.logp
        rows = {
            "obs": episode.obs[:-1],
            "actions": episode.actions,
            "rewards": episode.rewards,
            "logp": np.full(length, np.nan, np.float32) if logp is None else logp,
            **flags,
        }
        for name, column in self._columns.items():
            column.write(rows[name])

    def _begin(self, episode: Episode) -> None:
        self._first_rows.write(np.array([self.num_rows]))
        self._steps_before.write(np.array([self.num_steps]))
        self._row = np.zeros(1, EPISODES.dtype)
        self._row["first_row"] = self.num_rows
        self._row["first_step"] = episode.first_step
        self._row["file"] = self._files.setdefault(episode.file, len(self._files))
        self._row["row"] = episode.row

    def _end(self) -> None:
        """Write the row that holds an episode's last observation; nobody acted there."""
        if self._last is None:
            return
        rows = self._nothing | {"obs": self._last.obs[-1:]}
        for name, column in self._columns.items():
            column.write(rows[name])
        self._episodes.write(self._row)
        self._last = None

    def close(self) -> dict[str, Any]:
        """Write the files."""
        self._end()
        noted = {
            "num_rows": self.num_rows,
            "num_steps": self.num_steps,
            "num_episodes": self._episodes.num_rows,
            "files": list(self._files),
        }
        # One more row: seen from its second row on, the column says where the next row is valid.
        self._columns["valid"].write(np.zeros(1, bool))
        self._first_rows.write(np.array([self.num_rows]))
        for column in self._all:
            column.close()
        return noted

    def discard(self) -> None:
        """Close what is open."""
        for column in self._all:
            column.discard()

    @property
    def _all(self) -> tuple[ColumnWriter, ...]:
        others = (self._episodes, self._first_rows, self._steps_before)
        return (*self._columns.values(), *others)


def _unclipped(episode: Episode, spaces: DataSpaces) -> Episode:
    """Return an episode with the log-probabilities of those actions that no clipping changed.

    What was noted of the others is a density of what is no longer there: NaN takes its place.
    """
    if episode.logp is None:
        return episode
    on_bound = np.zeros(len(episode), bool)
    leaves = spaces.action_layout.leaves(episode.actions)
    for path, space in leaf_spaces(spaces.action, "action space").items():
        if isinstance(space, gym.spaces.Box) and space.dtype.kind == "f":
            met = (leaves[path] <= space.low) | (leaves[path] >= space.high)
            on_bound |= met.reshape(len(episode), -1).any(1)
    return replace(episode, logp=np.where(on_bound, np.float32(np.nan), episode.logp))


def _goes_on(before: Episode, after: Episode) -> bool:
    """Return whether a piece follows another one of the same episode."""
    return (
        bool(before.episode_id)
        and (before.episode_id, before.agent_id) == (after.episode_id, after.agent_id)
        and not (before.terminated or before.truncated)
        and after.first_step == before.first_step + len(before)
        and bool(np.array_equal(before.obs[-1], after.obs[0]))
    )
