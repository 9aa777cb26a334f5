"""Lines of JSON as steps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from trainables.runtime.offline.checks import Place, check_finite, fitted
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.formats.flat_observations import is_flattened, unflattened
from trainables.runtime.offline.formats.json_file import Line, num_rows
from trainables.runtime.offline.joining import Steps, run_starts
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.offline.recorded_actions import fitted_actions

Labels = list[str]


class LineReader:
    """Turns lines of a file into steps.

    Args:
        file: The file's name.
        spaces: What observations and actions must be of.
        options: How they are taken.
    """

    def __init__(self, file: str, spaces: DataSpaces, options: ReadOptions):
        self._file, self._spaces, self._options = file, spaces, options
        self._layouts = {"obs": spaces.obs_layout, "action": spaces.action_layout}
        self._layouts["next_obs"] = self._layouts["obs"]

    def read(self, line: Line, row: int) -> Steps:
        """Return a line whose first row is the file's `row`."""
        terminated, truncated = _flags(line)
        ids, agents = labels_of(line, "episode_id"), labels_of(line, "agent_id")
        numbers = None
        if "t" in line.columns:
            numbers = _whole_numbers(line, "t")
        names = None
        if ids is not None or agents is not None:
            names = _codes(ids or agents or [], agents or ids or [])
        starts = run_starts(terminated | truncated, names, numbers)
        ends = np.append(starts[1:], line.num_rows) - 1
        has_next = "next_obs" in line.columns
        return Steps(
            obs=self._tree(line, "obs", np.arange(line.num_rows)),
            actions=self._tree(line, "action", np.arange(line.num_rows)),
            rewards=_scalars(line, "reward").astype(np.float32, copy=False),
            terminated=terminated,
            truncated=truncated,
            logp=_logp(line),
            starts=starts,
            first_steps=None if numbers is None else numbers[starts],
            ids=None if ids is None else [ids[start] for start in starts],
            agents=None if agents is None else [agents[start] for start in starts],
            next_obs=self._tree(line, "next_obs", ends)
            if has_next
            else self._layouts["obs"].zeros((len(starts),)),
            has_next=np.full(len(starts), has_next),
            file=self._file,
            row=row,
            modules=[line.policy] * len(starts),
        )

    def _tree(self, line: Line, ours: str, chosen: np.ndarray) -> np.ndarray:
        """Return rows of observations or actions as their layout has them, `[N, *shape]`."""
        layout = self._layouts[ours]
        rows = layout.empty((len(chosen),))
        for path, leaf in layout.leaf_spaces.items():
            values, at = leaf_values(line, ours, path, self._spaces)
            values = values[chosen]
            if ours == "action":
                values = fitted_actions(values, leaf, at, self._options)
            else:
                values = fitted(values, leaf, at)
            (rows if layout.is_plain else rows[path])[...] = values
        return rows


def leaf_values(line: Line, ours: str, path: str, spaces: DataSpaces) -> tuple[np.ndarray, Place]:
    """Return the rows of a leaf of observations or actions `[N, ...]`, and where they stand.

    Raises:
        DataError: if it is not there, or has another number of rows than the rewards.
    """
    name, keys = line.columns.of_leaves(ours, spaces)[path]
    value, at = line.values[name], line.at.of("/".join((name, *keys)))
    flat = _flattened(line, name, spaces.observation) if ours != "action" else None
    if flat is not None:
        return unflattened(flat, spaces.observation, path, at), at
    for key in keys:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            have = f"; it has {sorted(value)}" if isinstance(value, dict) else ""
            raise at.error(f"there is no part {key!r}, which the space needs{have}")
    rows = num_rows(value, at)
    if rows != line.num_rows:
        raise at.error(
            f"it has {rows} rows, {line.columns['reward']!r} has {line.num_rows}",
            min(rows, line.num_rows),
        )
    return array_of(value, at), at


def _flattened(line: Line, name: str, space: gym.Space) -> np.ndarray | None:
    """Return a column of observations that RLlib has flattened; None: it has not."""
    column = line.values[name]
    if isinstance(space, gym.spaces.Box) or not isinstance(column, (list, np.ndarray)):
        return None
    if len(column) != line.num_rows or _are_parts(column, space, line.num_rows):
        return None
    try:
        values = np.asarray(column)
    except ValueError:  # ragged
        return None
    is_flat = values.dtype.kind in "biuf" and is_flattened(values, space)
    return values if is_flat else None


def array_of(value: Any, at: Place) -> np.ndarray:
    """Return a list of numbers, or of lists of them, nested at will, as rows `[N, ...]`.

    Raises:
        DataError: if rows are of different shapes, are missing, or are no numbers.
    """
    if isinstance(value, np.ndarray):
        return value
    try:
        values = np.asarray(value)
    except (ValueError, OverflowError):  # ragged
        raise _ragged(value, at) from None
    if values.dtype.kind in "biuf":
        return values
    raise _no_number(value, at)


def _ragged(value: list[Any], at: Place) -> Exception:
    """Return the error of the first row whose shape is another than the first one's."""
    first: tuple[int, ...] | None = None
    for row, part in enumerate(value):
        try:
            shape = np.shape(part)
        except ValueError:
            return at.error("the row has parts of different lengths", row)
        if first is None:
            first = shape
        if shape != first:
            return at.error(f"the row has shape {shape}, those before it {first}", row)
    return at.error("the rows have different shapes")


def _no_number(value: list[Any], at: Place) -> Exception:
    """Return the error of the first row that is no number, and no list of them."""
    for row, part in enumerate(value):
        if part is None:
            return at.error("the value is missing (null)", row)
        if np.asarray(part).dtype.kind not in "biuf":
            return at.error(f"the value is {str(part)[:40]!r}; allowed: numbers", row)
    return at.error("the values are no numbers of 64 bits")


def _scalars(line: Line, ours: str) -> np.ndarray:
    """Return a column with a finite number a row, `[N]`."""
    name = line.columns[ours]
    at = line.at.of(name)
    values = array_of(line.values[name], at)
    if values.shape[1:] == (1,):
        values = values[:, 0]
    if values.ndim != 1:
        raise at.error(f"values have shape {values.shape[1:]}, not one number each")
    check_finite(values, at)
    return values


def _whole_numbers(line: Line, ours: str) -> np.ndarray:
    """Return a column of whole numbers, `[N]`, int64."""
    values = _scalars(line, ours)
    whole = values.astype(np.int64)
    if (whole != values).any():
        row = int((whole != values).argmax())
        raise line.at.of(line.columns[ours]).error(f"{values[row]} is no whole number", row)
    return whole


def _flags(line: Line) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows terminate an episode and which truncate it, `[N]` each."""
    found = {
        ours: _scalars(line, ours) != 0
        for ours in ("terminated", "truncated", "done")
        if ours in line.columns
    }
    never = np.zeros(line.num_rows, np.bool_)
    truncated = found.get("truncated", never)
    # RLlib's older files only say that an episode is done: it terminated, unless it is noted that
    # it was truncated.
    return found.get("terminated", found.get("done", never) & ~truncated), truncated


def _logp(line: Line) -> np.ndarray:
    """Return the actions' log-probabilities, `[N]`; NaN where nobody noted them."""
    if "logp" not in line.columns:
        return np.full(line.num_rows, np.nan, np.float32)
    name = line.columns["logp"]
    value = line.values[name]
    if isinstance(value, list):
        value = [np.nan if number is None else number for number in value]
    return array_of(value, line.at.of(name)).astype(np.float32).reshape(line.num_rows)


def labels_of(line: Line, ours: str) -> Labels | None:
    """Return a column of names or numbers as texts, `[N]`; None: it is not there."""
    if ours not in line.columns:
        return None
    name = line.columns[ours]
    value = line.values[name]
    labels = value.tolist() if isinstance(value, np.ndarray) else value
    for row, label in enumerate(labels):
        if not isinstance(label, (str, int)):
            raise line.at.of(name).error(f"{label!r} is no name; allowed: a text or a number", row)
    return [str(label) for label in labels]


def _codes(ids: Labels, agents: Labels) -> np.ndarray:
    """Return numbers that tell pairs of names apart, `[N]`."""
    known: dict[tuple[str, str], int] = {}
    return np.array([known.setdefault(pair, len(known)) for pair in zip(ids, agents, strict=True)])


def _are_parts(column: Any, space: gym.Space, num_rows: int) -> bool:
    """Tell whether a column can be the parts of a Tuple, each with all rows: then it is that."""
    if not isinstance(space, gym.spaces.Tuple) or len(column) != len(space.spaces):
        return False
    return all(isinstance(part, list | np.ndarray) and len(part) == num_rows for part in column)
