"""Steps of one Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trainables.runtime.offline.broken_rows import Report, readable, reported
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.formats.arrow_values import from_arrow
from trainables.runtime.offline.formats.parquet_batches import BatchReader
from trainables.runtime.offline.formats.parquet_footer import (
    check_footer,
    columns_of_texts,
    read_footer,
)
from trainables.runtime.offline.formats.rllib_episodes import (
    ITEM,
    agent_of_item,
    is_of_episodes,
    spaces_of_item,
    steps_of_item,
)
from trainables.runtime.offline.formats.stated_spaces import spaces_from_text
from trainables.runtime.offline.formats.step_columns import StepColumns
from trainables.runtime.offline.joining import Steps
from trainables.runtime.offline.read_options import ColumnNames, ReadOptions

METADATA = b"tunescape"  # the key in the schema's metadata
# What Arrow raises of damaged files: also texts that are none, of names.
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError)
_SAID_BY_EPISODES = ("obs", "action", "reward", "terminated", "next_obs", "episode_id", "t")
_BATCH_BYTES = 8 * 2**20
_OBS = "obs"
_ROWS_OF_NAMES = 65_536
_BUFFER_BYTES = 2**20  # of a column that is read: not all of a row group at once


class ParquetSteps:
    """One file, a row a step.

    Args:
        opened: The file.
        name: The file's name, for messages.
        given: What its columns are called.

    Attributes:
        columns: Which column is what.
        spaces: What the file states; None: nothing.
        num_rows: Rows in it.
        has_episodes: Whether a row is an episode of RLlib's.

    Raises:
        DataError: if it is no whole Parquet file of steps.
    """

    def __init__(self, opened: Any, name: str, given: ColumnNames):
        self.name = name
        try:
            footer = read_footer(opened)
            # Of a remote file each look at a page would be a request.
            check_footer(footer, opened, name, pages=isinstance(opened, pa.OSFile))
            # Without pre_buffer: it would hold the bytes of all row groups read so far.
            self._file = pq.ParquetFile(
                opened,
                read_dictionary=columns_of_texts(footer),
                buffer_size=_BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,  # of files that have them, as ours do
            )
            self.schema = self._file.schema_arrow
            names = self.schema.names  # which may be no texts
        except DataError:
            raise
        except _DAMAGE as error:
            raise DataError(f"{name}: it is no whole Parquet file: {_reason(error)}") from None
        self.num_rows: int = self._file.metadata.num_rows
        self.has_episodes = is_of_episodes(self.schema)
        self.columns = StepColumns(_SAID_BY_EPISODES if self.has_episodes else names, name, given)
        self.spaces = self._stated()

    @property
    def has_steps(self) -> bool:
        """Whether it says which rows go on with which, also with those of other files."""
        return "episode_id" in self.columns and bool({"t", "next_obs"} & {*self.columns})

    def steps(
        self, spaces: DataSpaces, options: ReadOptions, report: Report | None = None
    ) -> Iterator[Steps]:
        """Yield the rows, some at a time.

        Args:
            spaces: What observations and actions must be of.
            options: How they are taken.
            report: Is told of rows that do not fit, which are then left out.

        Raises:
            DataError: naming row and column of what does not fit.
        """
        if self.has_episodes:
            yield from self._steps_of_episodes(spaces, options, report)
            return
        stated = {}
        if self.spaces is not None:
            stated = {"obs": self.spaces.obs_layout, "action": self.spaces.action_layout}
        reader = BatchReader(self.name, self.columns, stated, spaces, options)
        plain = ("reward", "terminated", "truncated", "done", "logp", "episode_id", "t")
        needed = {
            self.columns[ours] for ours in (*plain, "agent_id", "module_id") if ours in self.columns
        }
        needed |= reader.leaf_columns
        bytes_of_row = 2 * spaces.obs_layout.nbytes + spaces.action_layout.nbytes + 64
        size = max(1, min(65_536, _BATCH_BYTES // bytes_of_row))
        for row, batch in self.batches(sorted(needed), size):

            def read(start: int, stop: int, batch: pa.RecordBatch = batch, row: int = row) -> Steps:
                return reader.read(batch.slice(start, stop - start), row + start)

            yield from readable(read, batch.num_rows, report)

    def agents(self) -> set[str]:
        """Return the agents whose rows it has; "" stands for rows that name none.

        Raises:
            DataError: if the file is damaged.
        """
        if self.has_episodes:
            items = self.batches([ITEM], 1)
            return {agent_of_item(b.column(ITEM)[0].as_py(), Place(self.name, r)) for r, b in items}
        if "agent_id" not in self.columns:
            return {""}
        name, found = self.columns["agent_id"], set()
        for row, batch in self.batches([name], _ROWS_OF_NAMES):
            try:
                found |= {*pc.unique(batch.column(name)).to_pylist()}
            except _DAMAGE as error:
                raise Place(self.name, row, name).error(f"a name is no text: {error}") from None
        return {"" if agent is None else str(agent) for agent in found}

    def batches(self, columns: list[str], size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield some columns of at most `size` rows at a time, and the number of their first row.

        Raises:
            DataError: if the file is damaged.
        """
        features = self.columns.features if _OBS in columns else ()
        row = 0
        try:
            for batch in self._read(
                [*{*columns} - {_OBS}, *features] if features else columns, size
            ):
                if batch.num_rows:
                    yield row, self._with_obs(batch, row) if features else batch
                row += batch.num_rows
        except DataError:
            raise
        except _DAMAGE as error:
            raise DataError(
                f"{self.name}, row {row} or one soon after it: the file is damaged: "
                f"{_reason(error)}"
            ) from None

    def _read(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self._file.iter_batches(size, columns=columns)
        return batches

    def _with_obs(self, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Return a batch with its features, a number each, as a column of vectors."""
        parts = []
        for name in self.columns.features:
            at = Place(self.name, row, name)
            values = from_arrow(batch.column(name), at)
            if values.ndim != 1:
                raise at.error(f"values have shape {values.shape[1:]}, not one number each")
            parts.append(values)
        stacked = np.stack(parts, axis=1)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(stacked.reshape(-1)), len(parts))
        return batch.append_column(_OBS, vectors)

    def _steps_of_episodes(
        self, spaces: DataSpaces, options: ReadOptions, report: Report | None
    ) -> Iterator[Steps]:
        for row, batch in self.batches([ITEM], 1):
            with reported(report):
                [item] = batch.column(ITEM).to_pylist()
                steps = steps_of_item(item, spaces, options, Place(self.name, row))
                if steps is not None:
                    yield steps

    def _stated(self) -> DataSpaces | None:
        if self.has_episodes:
            for row, batch in self.batches([ITEM], 1):
                return spaces_of_item(batch.column(ITEM)[0].as_py(), Place(self.name, row))
        text = (self.schema.metadata or {}).get(METADATA)
        return None if text is None else spaces_from_text(text, self.name)


def _reason(error: Exception) -> str:
    """Return an error of Arrow in one line."""
    return " ".join(str(error).split())
