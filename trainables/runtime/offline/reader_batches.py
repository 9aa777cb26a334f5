"""Batches of a reader of one's own as episodes, and as a data set that no file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.conversion import EPISODES
from trainables.runtime.offline.data_set import DataSet
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.formats.json_file import Line, num_rows
from trainables.runtime.offline.formats.json_steps import LineReader
from trainables.runtime.offline.formats.step_columns import StepColumns
from trainables.runtime.offline.joining import EpisodeJoiner
from trainables.runtime.offline.read_options import ReadOptions


def episodes_of(batch: Any, spaces: DataSpaces, options: ReadOptions, where: str) -> list[Episode]:
    """Return the episodes of a batch of columns; each ends with it.

    Args:
        batch: Columns by name, `[N, ...]`.
        spaces: What observations and actions must be of.
        options: How they are taken.
        where: What to call the batch in messages.

    Raises:
        DataError: naming row and column of what does not fit.
    """
    at = Place(where, 0)
    if not isinstance(batch, Mapping):
        raise at.error(f"it is of type {type(batch).__name__}; allowed: a dict of columns")
    values = {str(name): _plain(column) for name, column in batch.items()}
    columns = StepColumns(list(values), where)
    count = num_rows(values[columns["reward"]], at.of("rewards"))
    line = Line(at, columns, values, count, policy="")
    if not line.num_rows:
        return []
    for ours in ("terminated", "truncated", "done", "logp", "episode_id", "t", "agent_id"):
        if ours in columns:
            name = columns[ours]
            found = num_rows(values[name], at.of(name))
            if found != line.num_rows:
                raise at.of(name).error(f"it has {found} rows, the rewards have {line.num_rows}")
    joiner = EpisodeJoiner()
    made = list(joiner.add(LineReader(where, spaces, options).read(line, 0)))
    return made + list(joiner.finish())


def data_set_of(episodes: Sequence[Episode], spaces: DataSpaces, name: str) -> DataSet:
    """Return episodes as a data set in memory, laid out as `DataSet` says.

    It lies in no folder, and has no digest.
    """
    lengths = np.array([len(episode) for episode in episodes], np.int64)
    first_rows = np.concatenate([[0], np.cumsum(lengths + 1)])
    total, last = int(first_rows[-1]), first_rows[1:] - 1  # each has one row more than steps
    valid = np.ones(total + 1, np.bool_)
    valid[last] = valid[-1] = False
    flags = {n: np.zeros(total, np.bool_) for n in ("terminated", "truncated", "is_first")}
    flags["is_first"][first_rows[:-1]] = True
    for flag in ("terminated", "truncated"):
        flags[flag][last - 1] = [getattr(episode, flag) for episode in episodes]
    actions = spaces.action_layout.zeros((total,))
    rewards, logp = np.zeros(total, np.float32), np.full(total, np.nan, np.float32)
    actions[valid[:-1]] = np.concatenate([episode.actions for episode in episodes])
    rewards[valid[:-1]] = np.concatenate([episode.rewards for episode in episodes])
    columns = {
        "obs": np.concatenate([episode.obs for episode in episodes]),
        "actions": actions,
        "rewards": rewards,
        "logp": logp,
        "valid": valid[:-1],
        **flags,
    }
    described = np.zeros(len(episodes), EPISODES.dtype)
    described["first_row"], described["length"] = first_rows[:-1], lengths
    return DataSet(
        name=name,
        digest="",
        spaces=spaces,
        folder=Path(),
        num_rows=total,
        num_steps=int(lengths.sum()),
        num_episodes=len(episodes),
        nbytes=sum(column.nbytes for column in columns.values()),
        files=(),
        columns=columns,
        next_valid=valid[1:],
        episodes=described,
        first_rows=first_rows,
        steps_before=np.concatenate([[0], np.cumsum(lengths)[:-1]]),
    )


def _plain(column: Any) -> Any:
    """Return a column as arrays, nested in dicts and lists as it is."""
    if isinstance(column, Mapping):
        return {str(key): _plain(part) for key, part in column.items()}
    if isinstance(column, tuple):
        return [_plain(part) for part in column]
    return column if isinstance(column, (list, np.ndarray)) else np.asarray(column)
