"""Batches of a Parquet file's rows as steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from trainables.core.data.layout import ObservationLayout
from trainables.runtime.offline.checks import Place, check_finite, fitted
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.formats.arrow_values import (
    check_repeated,
    child,
    decoded,
    from_arrow,
    from_bytes,
    is_packed,
)
from trainables.runtime.offline.formats.step_columns import StepColumns
from trainables.runtime.offline.joining import Steps, run_starts
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.offline.recorded_actions import fitted_actions


class BatchReader:
    """Turns batches of a file's rows into steps.

    Args:
        file: The file's name, for messages.
        columns: Which of its columns is what.
        stated: Layouts of `obs` and `action` that the file states; empty: none.
        spaces: What observations and actions must be of.
        options: How they are taken.

    Attributes:
        leaf_columns: The columns with observations and actions that are read.
    """

    def __init__(
        self,
        file: str,
        columns: StepColumns,
        stated: Mapping[str, ObservationLayout],
        spaces: DataSpaces,
        options: ReadOptions,
    ):
        self._file, self._columns, self._stated, self._options = file, columns, stated, options
        self._layouts = {"obs": spaces.obs_layout, "action": spaces.action_layout}
        self._trees = {
            ours: columns.of_leaves(ours, spaces)
            for ours in ("obs", "action", "next_obs")
            if ours in columns
        }
        self.leaf_columns = {name for tree in self._trees.values() for name, _ in tree.values()}

    def read(self, batch: pa.RecordBatch, row: int) -> Steps:
        """Return a batch whose first row is the file's `row`."""
        at = Place(self._file, row)
        terminated, truncated = self._flags(batch, at)
        ids = self._labels(batch, "episode_id", at)
        agents = self._labels(batch, "agent_id", at)
        steps = None
        if "t" in self._columns:
            steps = self._numbers(batch, "t", at).astype(np.int64)
        codes = None
        if ids is not None or agents is not None:
            both = [each.indices.to_numpy(zero_copy_only=False) for each in (ids, agents) if each]
            codes = (
                both[0].astype(np.int64)
                if len(both) == 1
                else (both[0].astype(np.int64) * (int(both[1].max()) + 1) + both[1])
            )
        starts = run_starts(terminated | truncated, codes, steps)
        next_obs, has_next = self._next_obs(batch, starts, at)
        return Steps(
            obs=self._tree(batch, "obs", at),
            actions=self._tree(batch, "action", at),
            rewards=self._rewards(batch, at),
            terminated=terminated,
            truncated=truncated,
            logp=self._logp(batch, at),
            starts=starts,
            first_steps=None if steps is None else steps[starts],
            ids=_names(ids, starts),
            agents=_names(agents, starts),
            next_obs=next_obs,
            has_next=has_next,
            file=self._file,
            row=row,
            modules=_names(self._labels(batch, "module_id", at), starts),
        )

    def _column(self, batch: pa.RecordBatch, ours: str) -> pa.Array:
        return batch.column(self._columns[ours])

    def _numbers(self, batch: pa.RecordBatch, ours: str, at: Place) -> np.ndarray:
        at = at.of(self._columns[ours])
        values = from_arrow(self._column(batch, ours), at)
        if values.ndim != 1:
            raise at.error(f"values have shape {values.shape[1:]}, not one number each")
        return values

    def _rewards(self, batch: pa.RecordBatch, at: Place) -> np.ndarray:
        rewards = self._numbers(batch, "reward", at)
        check_finite(rewards, at.of(self._columns["reward"]))
        return rewards.astype(np.float32, copy=False)

    def _logp(self, batch: pa.RecordBatch, at: Place) -> np.ndarray:
        if "logp" not in self._columns:
            return np.full(batch.num_rows, np.nan, np.float32)
        column = self._column(batch, "logp")
        if pt.is_null(column.type):
            return np.full(batch.num_rows, np.nan, np.float32)
        if not pt.is_floating(column.type):
            return self._numbers(batch, "logp", at).astype(np.float32)
        return column.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)

    def _flags(self, batch: pa.RecordBatch, at: Place) -> tuple[np.ndarray, np.ndarray]:
        found = {
            ours: self._numbers(batch, ours, at) != 0
            for ours in ("terminated", "truncated", "done")
            if ours in self._columns
        }
        never = np.zeros(batch.num_rows, np.bool_)
        truncated = found.get("truncated", never)
        # RLlib's older files only say that an episode is done: it terminated, unless it is noted
        # that it was truncated.
        done = found.get("done", never) & ~truncated
        return found.get("terminated", done), truncated

    def _labels(self, batch: pa.RecordBatch, ours: str, at: Place) -> Any:
        """Return a column of names or numbers as a dictionary array; None: it is not there."""
        if ours not in self._columns:
            return None
        column = self._column(batch, ours)
        if column.null_count == len(column):  # RLlib's, of a single agent
            return None
        if column.null_count:
            row = int(np.array(pc.is_null(column)).argmax())
            raise at.of(self._columns[ours]).error("the value is missing (null)", row)
        at = at.of(self._columns[ours])
        if pt.is_nested(column.type):
            raise at.error(f"values are of type {column.type}; allowed: texts or numbers")
        labels = column if pt.is_dictionary(column.type) else column.dictionary_encode()
        check_repeated(labels, at)
        try:
            labels.dictionary.validate(full=True)
        except pa.ArrowInvalid as error:
            raise at.error(f"a name is no text: {error}") from None
        return labels

    def _tree(self, batch: pa.RecordBatch, ours: str, at: Place) -> np.ndarray:
        """Return observations or actions as rows of their layout, `[N, *shape]`."""
        layout = self._layouts[ours]
        if layout.is_plain:
            [path] = layout.leaf_spaces
            return self._values(self._leaf(batch, ours, path, at), ours, path, at)
        rows = layout.empty((batch.num_rows,))
        for path in layout.leaf_spaces:
            rows[path][...] = self._values(self._leaf(batch, ours, path, at), ours, path, at)
        return rows

    def _next_obs(
        self, batch: pa.RecordBatch, starts: np.ndarray, at: Place
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what the runs' last actions led to `[R, *shape]`, and whether that is known."""
        layout = self._layouts["obs"]
        rows = layout.zeros((len(starts),))
        if "next_obs" not in self._columns:
            return rows, np.zeros(len(starts), np.bool_)
        ends = np.append(starts[1:], batch.num_rows) - 1
        known = np.ones(len(starts), np.bool_)
        columns = {}
        for path in layout.leaf_spaces:
            columns[path] = self._leaf(batch, "next_obs", path, at).take(pa.array(ends))
            known &= np.array(pc.is_valid(columns[path]))
        if not known.any():  # amid a long episode: of no lists no shape can be told
            return rows, known
        for path, column in columns.items():
            values = self._values(column.filter(pa.array(known)), "next_obs", path, at)
            (rows if layout.is_plain else rows[path])[known] = values
        return rows, known

    def _leaf(self, batch: pa.RecordBatch, ours: str, path: str, at: Place) -> pa.Array:
        name, fields = self._trees[ours][path]
        column = batch.column(name)
        for field in fields:
            if not pt.is_struct(column.type) or column.type.get_field_index(field) < 0:
                raise at.of(name).error(f"it has no field {field!r}; its type is {column.type}")
            column = child(column, field)
        return column

    def _values(self, column: pa.Array, ours: str, path: str, at: Place) -> np.ndarray:
        tree = "obs" if ours == "next_obs" else ours
        name, fields = self._trees[ours][path]
        at = at.of("/".join((name, *fields)))
        column = decoded(column, at)
        if tree in self._stated and is_packed(column.type):
            stated = self._stated[tree].leaf_spaces[path]
            assert stated.dtype is not None
            values = from_bytes(column, np.dtype(stated.dtype), stated.shape or (), at)
        else:
            values = from_arrow(column, at)
        space = self._layouts[tree].leaf_spaces[path]
        if tree == "obs":
            return fitted(values, space, at)
        return fitted_actions(values, space, at, self._options)


def _names(labels: Any, starts: np.ndarray) -> list[str] | None:
    """Return the names of the runs; None if there are no labels."""
    return None if labels is None else [str(name) for name in labels.take(starts).to_pylist()]
