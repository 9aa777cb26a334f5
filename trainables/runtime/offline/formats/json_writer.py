"""Recorded experience to files of JSON lines, which RLlib reads, too."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow.fs as pa_fs

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.spaces import tree_of_leaves
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.formats.stated_spaces import state_beside
from trainables.runtime.offline.formats.step_columns import NAMES, known_columns
from trainables.runtime.offline.packed_columns import pack
from trainables.runtime.offline.whole_files import WholeFile

_ONLY_POLICY = "default_policy"  # RLlib's name of it
_LINE_BYTES = 2**20  # of a line's arrays: what a reader may have to hold, some ten times over


class JsonLinesWriter:
    """Writes episodes to files of JSON lines, whole ones or none; see `EpisodeWriter`.

    An episode is a line, or several if it is long. Numbers come back to the bit: a float32 is
    written as the float64 that it is. Episodes' ids are never packed: they may be texts. The spaces
    stand beside the files, in one called `_spaces`.

    Args:
        folder: Where the files will lie.
        spaces: What is written.
        compress_columns: The columns to pack, by our names or RLlib's.
        max_file_size: Bytes from which on a file is full.
        max_rows_per_file: Most rows of a file; None: any number. A longer episode is cut.
        prefix: What the files' names begin with.
        env_id: The environment, which `_spaces` names.
        filesystem: The filesystem of the folder; None: the local one.

    Raises:
        ConfigError: for a column that is none.
        DataError: if the folder has data of other spaces, or cannot be written to.
    """

    def __init__(
        self,
        folder: Path | str,
        spaces: DataSpaces,
        *,
        compress_columns: Sequence[str] = (),
        max_file_size: int,
        max_rows_per_file: int | None = None,
        prefix: str = "data",
        env_id: str | None = None,
        filesystem: pa_fs.FileSystem | None = None,
    ):
        packed = known_columns(compress_columns) - {"episode_id"}
        self._packed = {name for ours in packed for name in NAMES[ours]}
        self._folder, self._prefix, self._filesystem = folder, prefix, filesystem
        self._spaces = spaces
        self._obs, self._actions = spaces.obs_layout, spaces.action_layout
        self._max_bytes, self._max_rows = max_file_size, max_rows_per_file
        row_bytes = 2 * self._obs.nbytes + self._actions.nbytes + 64
        self._line_rows = max(1, _LINE_BYTES // row_bytes)
        self._num_rows, self._unroll = 0, itertools.count()
        self._file: WholeFile | None = None
        state_beside(folder, spaces, env_id, filesystem)

    def write(self, episode: Episode) -> None:
        """Add an episode, or consecutive rows of one. A file is begun anew when it is full."""
        whole = self._max_rows is None or len(episode) <= self._max_rows
        if self._max_rows is not None and self._num_rows + len(episode) > self._max_rows:
            self.close()  # an episode lies in one file if it can
        start, most = 0, self._line_rows if whole else min(self._line_rows, self._max_rows or 1)
        while start < len(episode):
            if self._max_rows is not None and self._num_rows >= self._max_rows:
                self.close()
            room = len(episode) if self._max_rows is None else self._max_rows - self._num_rows
            stop = min(start + most, start + room, len(episode))
            self._write_line(episode.part(start, stop))
            start = stop
        if self._file is not None and self._file.stream.tell() >= self._max_bytes:
            self.close()

    def close(self) -> None:
        """Finish the last file. A writer that is killed before leaves whole files only."""
        if self._file is not None:
            self._file.close()
        self._file, self._num_rows = None, 0

    def _write_line(self, rows: Episode) -> None:
        if self._file is None:
            self._file = WholeFile(self._folder, self._prefix, ".json", self._filesystem)
        text = json.dumps(self._line(rows), separators=(",", ":"))
        self._file.stream.write(text.encode() + b"\n")
        self._num_rows += len(rows)

    def _line(self, rows: Episode) -> dict[str, Any]:
        """Return a batch as RLlib has it."""
        length = len(rows)
        terminated, truncated = (np.zeros(length, np.bool_) for _ in range(2))
        terminated[-1], truncated[-1] = rows.terminated, rows.truncated
        columns: dict[str, Any] = {
            "obs": self._tree(self._spaces.observation, self._obs, rows.obs[:-1]),
            "new_obs": self._tree(self._spaces.observation, self._obs, rows.obs[1:]),
            "actions": self._tree(self._spaces.action, self._actions, rows.actions),
            "rewards": rows.rewards,
            "terminateds": terminated,
            "truncateds": truncated,
            "eps_id": np.full(length, _number_if_one(rows.episode_id)),
            "t": np.arange(rows.first_step, rows.first_step + length),
            "agent_index": np.full(length, _number_if_one(rows.agent_id or "0")),
            "unroll_id": np.full(length, next(self._unroll)),
        }
        if rows.logp is not None:
            columns["action_logp"] = rows.logp
        batch = {
            name: pack(_named(value)) if name in self._packed else _plain(value)
            for name, value in columns.items()
        }
        if rows.module_id in ("", _ONLY_POLICY):
            return {"type": "SampleBatch", **batch}
        batches = {rows.module_id: batch}
        return {"type": "MultiAgentBatch", "count": length, "policy_batches": batches}

    def _tree(self, space: gym.Space, layout: ObservationLayout, rows: np.ndarray) -> Any:
        return tree_of_leaves(space, layout.leaves(rows))


def _named(value: Any) -> Any:
    """Return a tree of columns with texts for keys, which JSON has, too."""
    if isinstance(value, dict):
        return {str(key): _named(part) for key, part in value.items()}
    return [_named(part) for part in value] if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    """Return a column, or a tree of columns, as lists."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _number_if_one(name: str) -> int | str:
    """Return a name as RLlib has it, a number, if it reads the same again."""
    return int(name) if name.isascii() and name.isdecimal() and str(int(name)) == name else name
