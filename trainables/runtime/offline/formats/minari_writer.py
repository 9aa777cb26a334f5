"""Recorded experience to a Minari data set, which `minari.load_dataset` reads."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.spaces import leaf_spaces, tree_of_leaves
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.formats.minari_sets import OURS, minari_package, new_set
from trainables.runtime.offline.formats.stated_spaces import spaces_to_text
from trainables.runtime.offline.formats.step_columns import known_columns

LOGP = "action_logp"  # among the infos
_HELD_BYTES = 16 * 2**20
_IMAGE_SIDE = 32  # from which on Minari takes an array of bytes for an image


class MinariWriter:
    """Writes episodes to a Minari data set, a whole one or none; see `EpisodeWriter`.

    It appears when the writer is closed. Minari stores images as JPEG: they come back altered.
    How files are cut and compressed is its own choice.

    Args:
        folder: Where it will lie; `minari:<id>`: where Minari finds it by this id.
        spaces: What is written.
        compress_columns: Not used: Minari compresses nothing but images.
        max_file_size: Not used: a data set is not cut.
        max_rows_per_file: Must be None, for the same reason.
        prefix: Not used: a data set has a folder of its own.
        env_id: The environment, which the data set names if gymnasium knows it.

    Raises:
        ConfigError: without the extra `minari`, or for what such a data set cannot hold.
        DataError: if it is there already.
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
    ):
        self._minari = minari_package()
        known_columns(compress_columns)
        if max_rows_per_file is not None:
            raise ConfigError(
                f"max_rows_per_file={max_rows_per_file} is not allowed for format 'minari', whose "
                "files are not cut; allowed: None"
            )
        self._format = _data_format(spaces)
        self._spaces, self._env_spec = spaces, _env_spec(env_id)
        self._folder, self._id = new_set(str(folder))
        self._part = self._folder.parent / f".{self._folder.name}.{os.getpid()}.part"
        self._storage: Any = None
        self._held: list[Episode] = []
        self._held_bytes = self._num_written = 0

    def write(self, episode: Episode) -> None:
        """Add an episode, or consecutive rows of one, which become one of their own."""
        if not len(episode):
            return
        # The caller may go on writing into its arrays.
        held = episode.part(0, len(episode))
        logp = None if held.logp is None else held.logp.copy()
        obs, actions, rewards = (array.copy() for array in (held.obs, held.actions, held.rewards))
        self._held.append(
            Episode(
                obs,
                actions,
                rewards,
                held.terminated,
                held.truncated,
                logp,
                held.episode_id,
                held.first_step,
                module_id=held.module_id,
            )
        )
        self._held_bytes += obs.nbytes + actions.nbytes + rewards.nbytes
        if self._held_bytes >= _HELD_BYTES:
            self._write_held()

    def close(self) -> None:
        """Make the data set appear. A writer that is killed before leaves none."""
        self._write_held()
        if self._storage is None:
            return
        self._storage = None
        try:
            os.rename(self._part, self._folder)
        except OSError as error:
            raise DataError(f"{self._folder} cannot be written to: {error}") from None

    def _write_held(self) -> None:
        if not self._held:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what a published one should state
            try:
                self._storage = self._storage or self._new_storage()
                self._storage.update_episodes([self._buffer(episode) for episode in self._held])
                notes = [
                    {
                        "episode_id": e.episode_id,
                        "first_step": e.first_step,
                        "module_id": e.module_id,
                    }
                    for e in self._held
                ]
                first = self._num_written
                self._storage.update_episode_metadata(notes, range(first, first + len(self._held)))
            except OSError as error:
                raise DataError(f"{self._folder} cannot be written to: {error}") from None
        self._num_written += len(self._held)
        self._held, self._held_bytes = [], 0

    def _new_storage(self) -> Any:
        from minari.dataset.minari_storage import MinariStorage

        shutil.rmtree(self._part, ignore_errors=True)
        (self._part / "data").mkdir(parents=True)
        storage = MinariStorage.new(
            self._part / "data",
            observation_space=self._spaces.observation,
            action_space=self._spaces.action,
            env_spec=self._env_spec,
            data_format=self._format,
        )
        env_id = None if self._env_spec is None else self._env_spec.id
        storage.update_metadata(
            {
                "dataset_id": self._id,
                "minari_version": self._minari.__version__,
                OURS: spaces_to_text(self._spaces, env_id),
            }
        )
        return storage

    def _buffer(self, episode: Episode) -> Any:
        length = len(episode)
        flags = {name: np.zeros(length, np.bool_) for name in ("terminations", "truncations")}
        flags["terminations"][-1] = episode.terminated
        flags["truncations"][-1] = episode.truncated
        infos = None
        if episode.logp is not None:
            # A row an observation, as all infos; of one element: Minari's Arrow files read no less.
            infos = {LOGP: np.append(episode.logp, np.float32(np.nan))[:, None]}
        return self._minari.data_collector.EpisodeBuffer(
            observations=_tree(self._spaces.observation, self._spaces.obs_layout, episode.obs),
            actions=_tree(self._spaces.action, self._spaces.action_layout, episode.actions),
            rewards=episode.rewards,
            infos=infos,
            **flags,
        )


def _tree(space: gym.Space, layout: ObservationLayout, rows: np.ndarray) -> Any:
    leaves = {path: np.ascontiguousarray(leaf) for path, leaf in layout.leaves(rows).items()}
    return tree_of_leaves(space, leaves)


def _env_spec(env_id: str | None) -> Any:
    """Return gymnasium's description of an environment; None if it has none."""
    try:
        return None if env_id is None else gym.spec(env_id)
    except gym.error.Error:
        return None


def _data_format(spaces: DataSpaces) -> str:
    """Return Minari's name of a format that holds such spaces.

    Raises:
        ConfigError: if there is none.
    """
    format_ = "hdf5"
    for space in spaces:
        _check_keys(space)
        for leaf in leaf_spaces(space).values():
            shape = leaf.shape or ()
            if leaf.dtype != np.uint8 or not shape:
                continue
            if not _is_image(leaf):
                format_ = "arrow"  # Minari's HDF5 files take these for images, and fail
            elif len(shape) != 2 and shape[2] != 3:
                raise ConfigError(
                    f"format 'minari' does not hold {leaf}: Minari stores images as JPEG, of shape "
                    "(height, width) or (height, width, 3); use 'parquet' or 'json'"
                )
            else:
                logger.warning("Minari stores images as JPEG: those of %s come back altered", leaf)
    return format_


def _is_image(leaf: gym.Space) -> bool:
    """Return whether Minari takes a leaf of bytes for an image."""
    assert isinstance(leaf, gym.spaces.Box)
    return (
        len(leaf.shape) in (2, 3)
        and min(leaf.shape[:2]) >= _IMAGE_SIDE
        and bool((leaf.low == 0).all() and (leaf.high == 255).all())
    )


def _check_keys(space: gym.Space) -> None:
    """Raise if a part of a space has a name that Minari changes."""
    if isinstance(space, gym.spaces.Dict):
        for key in space.spaces:
            if not isinstance(key, str) or "/" in key:
                raise ConfigError(
                    f"format 'minari' does not hold the key {key!r} of a Dict space; allowed: "
                    "texts without '/'; use 'parquet' or 'json'"
                )
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        parts = space.spaces
        for part in parts.values() if isinstance(parts, dict) else parts:
            _check_keys(part)
