"""Recorded experience in CSV files, a row a step, with a line of names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.types as pt

from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.formats.parquet import ParquetSource
from trainables.runtime.offline.formats.parquet_steps import ParquetSteps
from trainables.runtime.offline.formats.step_columns import StepColumns
from trainables.runtime.offline.read_options import ColumnNames

_BLOCK_BYTES = 4 * 2**20  # read at once; types are those that the first block has


class CsvSteps(ParquetSteps):
    """One file, a row a step; its values are numbers, truth values and texts.

    Args:
        opened: The file.
        name: The file's name, for messages.
        given: What its columns are called.

    Raises:
        DataError: if it is no CSV file of steps.
    """

    def __init__(self, opened: Any, name: str, given: ColumnNames):
        self.name, self._opened = name, opened
        self.num_rows, self.has_episodes, self.spaces = 0, False, None
        try:
            self.schema = self._reader(None).schema
            names = self.schema.names
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{name}: it is no CSV file: {reason}") from None
        self.columns = StepColumns(names, name, given)

    def _read(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        num_rows = 0
        for batch in self._reader(columns):
            num_rows += batch.num_rows
            self.num_rows = max(self.num_rows, num_rows)  # none is known before
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)

    def _reader(self, columns: list[str] | None) -> pc.CSVStreamingReader:
        self._opened.seek(0)
        # Text says no type: 1.0 may well have been written as 1. Only choices must be whole.
        numbers = {}
        if columns is not None:
            whole = {self.columns[ours] for ours in ("action", "t") if ours in self.columns}
            numbers = {
                field.name: pa.float64()
                for field in self.schema
                if pt.is_integer(field.type) and field.name not in whole
            }
            numbers |= {
                self.columns[ours]: pa.string()
                for ours in ("episode_id", "agent_id", "module_id")
                if ours in self.columns
            }
        return pc.open_csv(
            self._opened,
            read_options=pc.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            convert_options=pc.ConvertOptions(include_columns=columns, column_types=numbers),
        )


class CsvSource(ParquetSource):
    """CSV files that are read together; see `Source`.

    Args:
        files: The files.
        options: How values are taken.
    """

    _steps = CsvSteps
