"""Recorded experience in Minari's data sets, from their local files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.space_json import check_size
from trainables.core.data.spaces import PLAIN, leaf_keys
from trainables.runtime.offline.broken_rows import Report, reported
from trainables.runtime.offline.checks import Place, check_finite, fitted
from trainables.runtime.offline.digests import digest_of
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.file_set import FileSet
from trainables.runtime.offline.formats.hdf5_file import check_hdf5
from trainables.runtime.offline.formats.minari_sets import (
    OURS,
    PREFIX,
    files_of,
    found_set,
    metadata_of,
    minari_package,
)
from trainables.runtime.offline.formats.minari_writer import LOGP, MinariWriter
from trainables.runtime.offline.formats.stated_spaces import check_same_spaces, spaces_from_text
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.offline.recorded_actions import fitted_actions

__all__ = ["MinariSource", "MinariWriter"]

_SPACES = ("observation_space", "action_space")


class MinariSource:
    """A Minari data set; see `Source`. It is not downloaded, and its environment is not made.

    Args:
        name: Its id, or its folder.
        options: How values are taken.

    Raises:
        ConfigError: without the extra `minari`.
        DataError: if there is no such data set.
    """

    def __init__(self, name: str, options: ReadOptions | None = None):
        self.name, self.options = f"{PREFIX}{name}", options or ReadOptions()
        self._minari = minari_package()
        self._folder = found_set(name)
        self._all = FileSet(self.name, [str(path) for path in files_of(self._folder, name)])
        self._metadata = metadata_of(self._folder, name)
        self._file = str(self._folder / "data")
        self.files = [self._file]
        self.report: Report | None = None

    def digest(self) -> str:
        """Return a hexadecimal digest that changes with the contents, and with nothing else."""
        return digest_of(self._all)

    def spaces(self) -> DataSpaces | None:
        """Return the spaces that the data set states; None if it states none."""
        if OURS in self._metadata:  # in the order of the keys, which Minari does not keep
            return spaces_from_text(str(self._metadata[OURS]), self.name)
        texts = [self._metadata.get(key) for key in _SPACES]
        return None if None in texts else DataSpaces(*map(self._space, texts))

    def _space(self, text: Any) -> gym.Space:
        try:
            check_size(json.loads(text))
            space: gym.Space = self._minari.serialization.deserialize_space(text)
        except Exception as error:  # Minari looks at nothing before it uses it
            raise DataError(
                f"{self.name}: the spaces that it states are unreadable: {error!r}"
            ) from None
        return space

    def infer_spaces(self) -> DataSpaces:
        """Raise: a data set that states no spaces names an environment, which is not made here."""
        raise DataError(
            f"{self.name}: it states no spaces, only the environment that it is of; give "
            "observation_space and action_space in the settings, or the environment"
        )

    def agents(self) -> list[set[str]]:
        """Return the agents whose rows the data set has: one, without a name."""
        return [{""}]

    def of_files(self, numbers: Collection[int]) -> MinariSource:
        """Return the data set, which is read as one."""
        return self

    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        """Yield what is recorded, one episode at a time, in bounded memory."""
        stated = self.spaces()
        if stated is None:
            self.infer_spaces()
        else:
            check_same_spaces(self.name, stated, spaces, "the settings or the environment")
        row = 0
        for number, (data, notes) in enumerate(self._read()):
            with reported(self.report):
                episode = self._episode(data, notes, number, row, spaces)
                row += len(episode)
                yield episode
        if not row:
            raise DataError(f"{self.name}: there are no rows in it; files: {self.files}")

    def _read(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield episodes as Minari has them, and what is noted of each."""
        number = 0
        try:
            self._check()
            data_set = self._minari.MinariDataset(self._file)
            for number in data_set.episode_indices.tolist():
                [data] = data_set.iterate_episodes([number])
                [notes] = data_set.storage.get_episode_metadata([number])
                yield data, notes
        except DataError:
            raise
        except Exception as error:  # of three libraries, which raise anything
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise DataError(f"{self.name}, episode {number}: it is unreadable: {reason}") from None

    def _check(self) -> None:
        """Raise if Minari would run code, leave the folder, or take memory without a bound."""
        for key in _SPACES:
            if self._metadata.get(key) is None:
                self.infer_spaces()  # Minari would make the environment, whoever's code that is
            self._space(self._metadata[key])
        num_groups = sum(
            check_hdf5(Path(path)) if path.endswith(".hdf5") else 1 for path in self._all.files
        )
        num_episodes = self._metadata.get("total_episodes")
        if not isinstance(num_episodes, int) or not 0 <= num_episodes <= num_groups:
            raise DataError(
                f"{self.name}: its metadata.json has total_episodes = {num_episodes!r}; allowed: "
                f"as many as there are, of {num_groups} groups and files"
            )

    def _episode(
        self, data: Any, notes: dict[str, Any], number: int, row: int, spaces: DataSpaces
    ) -> Episode:
        at = Place(f"{self.name}, episode {number}", 0)
        rewards = _numbers(data.rewards, at.of("rewards"))
        check_finite(rewards, at.of("rewards"))
        length = len(rewards)
        names = ("terminations", "truncations")
        flags = {name: _numbers(getattr(data, name), at.of(name)) for name in names}
        for name, values in flags.items():
            early = np.flatnonzero(values[: max(length - 1, 0)])
            if values.shape != (length,) or len(early):
                raise at.of(name).error(
                    "the episode goes on after it has ended"
                    if len(early)
                    else f"it has shape {values.shape}, the rewards {rewards.shape}",
                    int(early[0]) if len(early) else 0,
                )
        logp = (data.infos or {}).get(LOGP)
        return Episode(
            obs=_rows(data.observations, spaces.obs_layout, length + 1, at.of("observations")),
            actions=_rows(
                data.actions, spaces.action_layout, length, at.of("actions"), self.options
            ),
            rewards=rewards.astype(np.float32, copy=False),
            terminated=bool(length and flags["terminations"][-1]),
            truncated=bool(length and flags["truncations"][-1]),
            logp=None
            if logp is None
            else _numbers(logp, at.of(LOGP)).astype(np.float32).ravel()[:length],
            episode_id=str(notes.get("episode_id", number)),
            first_step=int(notes.get("first_step", 0)),
            file=self._file,
            row=row,
            module_id=str(notes.get("module_id", "")),
        )


def _numbers(column: Any, at: Place) -> np.ndarray:
    """Return a column of numbers, one a step, `[N]`."""
    values = np.asarray(column)
    if values.dtype.kind not in "biuf" or not values.ndim:
        raise at.error(f"values are {values.dtype}, of shape {values.shape}, not a number a step")
    return values


def _rows(
    tree: Any,
    layout: ObservationLayout,
    length: int,
    at: Place,
    options: ReadOptions | None = None,
) -> np.ndarray:
    """Return a tree of arrays, of actions if there are options, as rows `[length, *shape]`."""
    rows = layout.empty((length,))
    for path, keys in leaf_keys(layout.space).items():
        leaf, place = tree, at if path == PLAIN else at.of(f"{at.column}/{path}")
        try:
            for key in keys:
                leaf = leaf[key]
        except (KeyError, IndexError, TypeError):
            raise place.error(f"there is no part {path!r}, which {layout.space} needs") from None
        values = np.asarray(leaf)
        if not values.ndim:
            raise place.error("it is one number, not one a step")
        if len(values) != length:
            raise place.error(f"it has {len(values)} rows, not {length}", min(len(values), length))
        space = layout.leaf_spaces[path]
        if options is None:
            values = fitted(values, space, place)
        else:
            values = fitted_actions(values, space, place, options)
        (rows if layout.is_plain else rows[path])[...] = values
    return rows
