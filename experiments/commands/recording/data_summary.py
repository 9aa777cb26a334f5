"""What is in recorded experience, in numbers; found in one pass, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from experiments.errors import ExperimentError

if TYPE_CHECKING:
    from trainables.runtime.offline.episode import DataError, DataSpaces
    from trainables.runtime.offline.source import Source

MOST_BROKEN = 1000
"""After so many broken rows reading stops."""

BINS = 20  # of a continuous action, between its bounds
_AT_BOUND = 1e-3  # of the width: as near counts as at the bound
_MOST_ELEMENTS = 32  # elements of an action that are looked at one by one


@dataclass
class ActionCounts:
    """How often an element of the actions had which value.

    Attributes:
        name: Which element it is.
        low: Its least value.
        high: Its greatest value.
        counts: Of each choice; of a continuous element, of bins between the bounds (or, without
            them, between the extremes of the first episodes), `[choices or BINS]`.
        is_choice: Whether it is a choice among few.
        at_bounds: Values that lie at a bound; None where there are none, or it is a choice.
    """

    name: str
    low: float
    high: float
    counts: np.ndarray
    is_choice: bool
    at_bounds: int | None = None

    @property
    def unseen(self) -> list[int]:
        """The choices that no row has."""
        if not self.is_choice:
            return []
        return [int(self.low) + int(i) for i in np.flatnonzero(self.counts == 0)]


@dataclass
class DataSummary:
    """What is in recorded experience.

    Attributes:
        name: As it was asked for.
        format: Of the files.
        files: The files.
        nbytes: Their size; None if that is not known.
        digest: Of the contents.
        spaces: Of observations and actions; None if they could not be told.
        stated: Whether the files state the spaces; else they were inferred.
        returns: Of whole episodes, `[E]`, undiscounted.
        lengths: Of whole episodes, `[E]`.
        num_steps: Steps in all.
        num_terminated: Episodes that the environment ended.
        num_truncated: Episodes that a limit ended.
        num_cut: Pieces of episodes whose beginning or end is missing.
        num_logp: Steps whose log-probability is known.
        agents: Steps of each agent that is named, by its id.
        actions: How often which action was taken.
        left_out: Elements of actions that were not looked at, as there are so many.
        broken: Messages of rows, lines and files that cannot be read.
        stopped: Whether reading stopped because so many are broken.
    """

    name: str
    format: str
    files: list[str]
    nbytes: int | None
    digest: str | None
    spaces: DataSpaces | None = None
    stated: bool = True
    returns: np.ndarray = field(default_factory=lambda: np.empty(0))
    lengths: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    num_steps: int = 0
    num_terminated: int = 0
    num_truncated: int = 0
    num_cut: int = 0
    num_logp: int = 0
    agents: dict[str, int] = field(default_factory=dict)
    actions: list[ActionCounts] = field(default_factory=list)
    left_out: int = 0
    broken: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def num_episodes(self) -> int:
        """Whole episodes."""
        return len(self.returns)


def summarise(
    items: Sequence[str], input_config: Mapping[str, Any] | None = None, *, normalized: bool = False
) -> DataSummary:
    """Read recorded experience, and return what is in it.

    Args:
        items: Files, folders, globs, URLs, or one `minari:<dataset>`; see the setting `input_`.
        input_config: See the setting `input_config`.
        normalized: See the setting `actions_in_input_normalized`.

    Raises:
        ExperimentError: There is nothing to be read there.
        ConfigError: The same, or `input_config` is wrong.
    """
    from trainables.runtime.offline.inputs import find_source

    if "sampler" in items:
        raise ExperimentError("'sampler' stands for the samples of training, which have no files")
    source = find_source(
        items[0] if len(items) == 1 else list(items), input_config, actions_normalized=normalized
    )
    format_ = type(source).__module__.rpartition(".")[2].replace("json_lines", "json")
    summary = DataSummary(source.name, format_, list(source.files), _size(source.files), None)
    with _reported(source, summary):
        summary.digest = source.digest()
        stated = source.spaces()
        summary.stated = stated is not None
        summary.spaces = source.infer_spaces() if stated is None else stated
        _read(source, summary.spaces, summary)
    return summary


class _TooManyError(Exception):
    """So many rows are broken that reading stops."""


@contextmanager
def _reported(source: Source, summary: DataSummary) -> Iterator[None]:
    """Note what is broken, and go on behind it."""
    from trainables.runtime.offline.episode import DataError

    told: set[str] = set()

    def report(error: DataError) -> None:
        if str(error) not in told:  # files are opened more than once
            told.add(str(error))
            summary.broken.append(str(error))
        if len(summary.broken) >= MOST_BROKEN:
            raise _TooManyError

    tolerant: Any = source
    tolerant.report = report
    try:
        yield
    except DataError as error:  # of all of it: no row, no episode that ends, no spaces
        report(error)
    except _TooManyError:
        summary.stopped = True


def _read(source: Source, spaces: DataSpaces, summary: DataSummary) -> None:
    from trainables.runtime.offline.episode import Episode

    layout, returns, lengths = spaces.action_layout, [], []
    counter = _ActionCounter(spaces.action)
    summary.actions, summary.left_out = counter.counts, counter.left_out
    try:
        for episode in source.episodes(spaces):
            assert isinstance(episode, Episode)
            ends = episode.terminated or episode.truncated
            summary.num_steps += len(episode)
            summary.num_logp += 0 if episode.logp is None else int((~np.isnan(episode.logp)).sum())
            if episode.agent_id:
                before = summary.agents.get(episode.agent_id, 0)
                summary.agents[episode.agent_id] = before + len(episode)
            counter.add(layout.leaves(episode.actions))
            if not ends or episode.first_step:
                summary.num_cut += 1
                continue
            returns.append(float(episode.rewards.sum(dtype=np.float64)))
            lengths.append(len(episode))
            summary.num_terminated += episode.terminated
            summary.num_truncated += episode.truncated and not episode.terminated
    finally:
        summary.returns = np.array(returns)
        summary.lengths = np.array(lengths, np.int64)


class _ActionCounter:
    """Counts actions of a space."""

    def __init__(self, space: gym.Space):
        from trainables.core.data.spaces import PLAIN, leaf_spaces

        self.counts: list[ActionCounts] = []
        self._of_leaf: dict[str, list[ActionCounts]] = {}
        self.left_out = 0
        for path, leaf in leaf_spaces(space, "action space").items():
            found = [*_elements(leaf, "" if path == PLAIN else path)]
            room = max(0, _MOST_ELEMENTS - len(self.counts))
            self.left_out += len(found[room:])
            self._of_leaf[path] = found[:room]
            self.counts += found[:room]

    def add(self, leaves: Mapping[str, np.ndarray]) -> None:
        """Count rows of the leaves, each `[L, *shape]`."""
        for path, rows in leaves.items():
            columns = rows.reshape(len(rows), -1).T
            for counts, values in zip(self._of_leaf[path], columns, strict=False):
                _count(counts, values)


def _elements(space: gym.Space, path: str) -> Iterator[ActionCounts]:
    """Yield the elements of a leaf, with nothing counted."""
    shape = space.shape or ()
    for number in range(int(np.prod(shape, dtype=int))):
        place = f"[{', '.join(map(str, np.unravel_index(number, shape)))}]" if shape else ""
        name = f"{path}{place}" or "action"
        if isinstance(space, gym.spaces.Box) and space.dtype.kind == "f":
            low, high = float(space.low.flat[number]), float(space.high.flat[number])
            bounded = np.isfinite(low) and np.isfinite(high)
            yield ActionCounts(name, low, high, np.zeros(BINS, int), False, 0 if bounded else None)
            continue
        low, high = _choices(space, number)
        count = high - low + 1
        if count > 256:  # a Box of wide integers
            yield ActionCounts(name, low, high, np.zeros(BINS, int), False, 0)
        else:
            yield ActionCounts(name, low, high, np.zeros(count, int), True)


def _choices(space: Any, number: int) -> tuple[int, int]:
    """Return the least and the greatest value of an element."""
    if isinstance(space, gym.spaces.Box):
        return int(space.low.flat[number]), int(space.high.flat[number])
    if isinstance(space, gym.spaces.MultiBinary):
        return 0, 1
    if isinstance(space, gym.spaces.MultiDiscrete):
        first = int(space.start.flat[number])
        return first, first + int(space.nvec.flat[number]) - 1
    return int(space.start), int(space.start + space.n) - 1


def _count(counts: ActionCounts, values: np.ndarray) -> None:
    """Add values `[L]` of an element."""
    if not len(values):
        return
    if counts.is_choice:
        found = np.bincount(values.astype(np.int64) - int(counts.low), minlength=len(counts.counts))
        counts.counts += found[: len(counts.counts)]
        return
    values = values.astype(np.float64)
    if not (np.isfinite(counts.low) and np.isfinite(counts.high)):  # no bounds: those of the data
        low, high = float(values.min()), float(values.max())
        margin = (high - low) / 2 or 1.0
        counts.low, counts.high = low - margin, high + margin
    width = counts.high - counts.low
    places = ((values - counts.low) / width * BINS).astype(int).clip(0, BINS - 1)
    counts.counts += np.bincount(places, minlength=BINS)
    if counts.at_bounds is not None:
        near = np.minimum(values - counts.low, counts.high - values) <= _AT_BOUND * width
        counts.at_bounds += int(near.sum())


def _size(files: Sequence[str]) -> int | None:
    """Return the bytes of local files; None of others."""
    total = 0
    for name in files:
        if os.path.isdir(name):
            total += sum(
                os.path.getsize(os.path.join(folder, each))
                for folder, _, here in os.walk(name)
                for each in here
            )
        elif os.path.isfile(name):
            total += os.path.getsize(name)
        else:
            return None
    return total
