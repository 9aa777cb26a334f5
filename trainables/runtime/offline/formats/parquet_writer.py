"""Recorded experience to Parquet files, a row a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.spaces import PLAIN
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.formats.arrow_values import to_arrow
from trainables.runtime.offline.formats.parquet_steps import METADATA
from trainables.runtime.offline.formats.stated_spaces import spaces_to_text
from trainables.runtime.offline.formats.step_columns import known_columns
from trainables.runtime.offline.whole_files import WholeFile

_GROUP_BYTES = 16 * 2**20  # of a row group: what a reader may have to hold
_AGENT, _MODULE = "default_agent", "default_policy"
_CODEC = "lz4"


class ParquetWriter:
    """Writes episodes to Parquet files, whole ones or none; see `EpisodeWriter`.

    Args:
        folder: Where the files will lie.
        spaces: What is written. The files state them.
        compress_columns: The columns to compress by LZ4, by our names or RLlib's.
        max_file_size: Bytes from which on a file is full.
        max_rows_per_file: Most rows of a file; None: any number. A longer episode is cut.
        prefix: What the files' names begin with.
        env_id: The environment, which the files name.
        filesystem: The filesystem of the folder; None: the local one.

    Raises:
        ConfigError: for a column that is none.
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
        self._folder, self._prefix, self._filesystem = folder, prefix, filesystem
        self._layouts = {"obs": spaces.obs_layout, "action": spaces.action_layout}
        self._layouts["next_obs"] = self._layouts["obs"]
        self._compressed = known_columns(compress_columns)
        self._max_bytes, self._max_rows = max_file_size, max_rows_per_file
        self._group_bytes = min(_GROUP_BYTES, max(1, max_file_size // 4))
        self._metadata = {METADATA: spaces_to_text(spaces, env_id).encode()}
        self._held: list[Episode] = []
        self._held_bytes = self._num_rows = 0
        self._file: WholeFile | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, episode: Episode) -> None:
        """Add an episode, or consecutive rows of one. A file is begun anew when it is full."""
        if self._max_rows is not None and self._num_rows + len(episode) > self._max_rows:
            self._end_file()
            while len(episode) > self._max_rows:
                self._add(episode.part(0, self._max_rows))
                self._end_file()
                episode = episode.part(self._max_rows, len(episode))
        self._add(episode)

    def close(self) -> None:
        """Finish the last file. A writer that is killed before leaves whole files only."""
        self._end_file()

    def _add(self, episode: Episode) -> None:
        if not len(episode):
            return
        # The caller may go on writing into its arrays.
        logp = None if episode.logp is None else episode.logp.copy()
        arrays = {name: getattr(episode, name).copy() for name in ("obs", "actions", "rewards")}
        self._held.append(replace(episode, logp=logp, **arrays))
        self._num_rows += len(episode)
        self._held_bytes += sum(array.nbytes for array in arrays.values())
        if self._held_bytes >= self._group_bytes:
            self._write_group()
            assert self._file is not None
            if self._file.stream.tell() >= self._max_bytes:
                self._end_file()

    def _write_group(self) -> None:
        if not self._held:
            return
        table = self._table(self._held)
        self._held, self._held_bytes = [], 0
        if self._writer is None:
            self._file = WholeFile(self._folder, self._prefix, ".parquet", self._filesystem)
            self._writer = pq.ParquetWriter(
                self._file.stream,
                table.schema,
                compression=_codecs(table.schema, self._compressed),
                use_dictionary=["episode_id", "agent_id", "module_id"],
                write_page_checksum=True,
            )
        self._writer.write_table(table)

    def _end_file(self) -> None:
        self._write_group()
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
        self._writer = self._file = None
        self._num_rows = 0

    def _table(self, episodes: list[Episode]) -> pa.Table:
        lengths = [len(episode) for episode in episodes]
        num_rows = sum(lengths)
        ends = np.cumsum(lengths) - 1
        columns: dict[str, pa.Array] = {
            "episode_id": _repeated([e.episode_id for e in episodes], lengths),
            "t": pa.array(np.concatenate([_steps(episode) for episode in episodes])),
        }
        columns |= self._leaves("obs", np.concatenate([e.obs[:-1] for e in episodes]))
        columns |= self._leaves("action", np.concatenate([e.actions for e in episodes]))
        columns["reward"] = to_arrow(
            np.concatenate([e.rewards for e in episodes], dtype=np.float32)
        )
        for name in ("terminated", "truncated"):
            flags = np.zeros(num_rows, np.bool_)
            flags[ends] = [getattr(episode, name) for episode in episodes]
            columns[name] = pa.array(flags)
        logp = [np.full(len(e), np.nan, np.float32) if e.logp is None else e.logp for e in episodes]
        noted = np.concatenate(logp, dtype=np.float32)
        columns["logp"] = pa.array(noted, mask=np.isnan(noted))
        where = np.full(num_rows, -1, np.int64)
        where[ends] = np.arange(len(episodes))
        last = self._leaves("next_obs", np.concatenate([e.obs[-1:] for e in episodes]))
        rows = pa.array(where, mask=where < 0)
        columns |= {name: column.take(rows) for name, column in last.items()}
        columns["agent_id"] = _repeated([e.agent_id or _AGENT for e in episodes], lengths)
        columns["module_id"] = _repeated([e.module_id or _MODULE for e in episodes], lengths)
        return pa.table(columns).replace_schema_metadata(self._metadata)

    def _leaves(self, name: str, rows: np.ndarray) -> dict[str, pa.Array]:
        layout: ObservationLayout = self._layouts[name]
        return {
            name if path == PLAIN else f"{name}/{path}": to_arrow(leaf)
            for path, leaf in layout.leaves(rows).items()
        }


def _repeated(names: list[str], lengths: list[int]) -> pa.Array:
    """Return a column with each name as often as its episode has rows."""
    rows = np.repeat(np.arange(len(names)), lengths)
    return pa.array(names, pa.string()).take(pa.array(rows))


def _steps(episode: Episode) -> np.ndarray:
    """Return the numbers of an episode's rows within it."""
    return np.arange(episode.first_step, episode.first_step + len(episode), dtype=np.int64)


def _codecs(schema: pa.Schema, compressed: set[str]) -> dict[str, str]:
    """Return how each column is compressed, by its path in Parquet."""
    codecs = {}
    for field in schema:
        root = field.name.split("/")[0]
        path = f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
        codecs[path] = _CODEC if root in compressed else "none"
    return codecs
