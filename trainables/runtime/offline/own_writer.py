"""`OutputWriter`: a writer of one's own, which gets rows as columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.data.spaces import tree_of_leaves
from trainables.core.errors import ConfigError
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.io_context import IOContext


@runtime_checkable
class OutputWriter(Protocol):
    """What a callable given as `output` returns. It may have a `close`, called at the end."""

    @abstractmethod
    def write(self, columns: dict[str, Any]) -> None:
        """Take consecutive rows of one episode, `[L, …]` by name.

        `obs`, `new_obs` and `actions` (trees of arrays where their space is nested), `rewards`,
        `terminateds`, `truncateds`, `eps_id`, `t` (the number of a row in its episode),
        `module_id`, and `action_logp` where it is known.
        """


class ColumnsWriter:
    """Hands episodes to a writer of one's own, as columns; see `EpisodeWriter`.

    Args:
        writer: It.
        spaces: What is written.
    """

    def __init__(self, writer: OutputWriter, spaces: DataSpaces):
        self._writer, self._spaces = writer, spaces

    def write(self, episode: Episode) -> None:
        """Hand over an episode, or consecutive rows of one."""
        length, spaces = len(episode), self._spaces
        terminateds, truncateds = np.zeros(length, bool), np.zeros(length, bool)
        terminateds[-1:], truncateds[-1:] = episode.terminated, episode.truncated
        obs = tree_of_leaves(spaces.observation, spaces.obs_layout.leaves(episode.obs[:-1]))
        new_obs = tree_of_leaves(spaces.observation, spaces.obs_layout.leaves(episode.obs[1:]))
        columns = {
            "obs": obs,
            "new_obs": new_obs,
            "actions": tree_of_leaves(spaces.action, spaces.action_layout.leaves(episode.actions)),
            "rewards": episode.rewards,
            "terminateds": terminateds,
            "truncateds": truncateds,
            "eps_id": np.full(length, episode.episode_id),
            "t": np.arange(episode.first_step, episode.first_step + length),
            "module_id": np.full(length, episode.module_id),
        }
        if episode.logp is not None:
            columns["action_logp"] = episode.logp
        self._writer.write(columns)

    def close(self) -> None:
        """Have the writer finish, if it has something to finish."""
        close = getattr(self._writer, "close", None)
        if close is not None:
            close()


def own_writer(given: str | Callable[..., Any], context: IOContext) -> OutputWriter:
    """Return the writer that a callable, or `module:name` of one, makes.

    Raises:
        ConfigError: if it makes something else.
    """
    make = resolve_callable(given) if isinstance(given, str) else given
    made = make(context)
    if not isinstance(made, OutputWriter):
        name = given if isinstance(given, str) else callable_name(given)
        raise ConfigError(
            f"output = {name!r} returned {type(made).__name__}; allowed: an OutputWriter, which "
            "has write(columns)"
        )
    return made
