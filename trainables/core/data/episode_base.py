"""`EpisodeBase`: what episodes have in common, whether they are of one agent or of several."""

from __future__ import annotations

import math
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from trainables.core.errors import ConfigError

_IN_USER_DATA = "is not kept: note it in on_episode_step, in episode.user_data"
_CONNECTOR = "does not exist: what happens to rollouts before learning is a learner_connector"
# Members that are in no episode, with what to use.
INSTEAD = {
    "prev_action_for": _IN_USER_DATA,
    "prev_reward_for": _IN_USER_DATA,
    "rnn_state_for": "does not exist: rollouts hold the states that networks learn from",
    "last_done_for": "does not exist: use is_terminated and is_truncated",
    "media": "does not exist: record_env=True writes videos",
    "batch_builder": _CONNECTOR,
    "new_batch_builder": _CONNECTOR,
    "add_extra_batch": _CONNECTOR,
    "soft_reset": "does not exist: environments truncate episodes",
}


def checked_number(name: Any, value: Any) -> float:
    """Return the value of a metric.

    Raises:
        ConfigError: naming the metric, if that is no finite number.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"custom metric {name!r}: a metric's name is a text")
    # A size-1 array or tensor is no Real, and what it means is for the user to say.
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigError(f"custom metric {name!r} = {value!r} is no finite number")
    return float(value)


class EpisodeMetrics(UserDict[str, float]):
    """`Episode.custom_metrics`: takes finite numbers only."""

    def __setitem__(self, name: str, value: Any) -> None:
        self.data[name] = checked_number(name, value)


@dataclass(eq=False)
class EpisodeBase:
    """An episode that runs in a slot: valid within the hook, but for the three dicts.

    Attributes:
        episode_id: Counts the episodes of an env runner, or of a part of an evaluation.
        env_index: The slot that it is in.
        worker: What samples or evaluates it; None where a policy is evaluated by itself.
        user_data: Lives as long as the episode, for whatever you put into it.
        custom_metrics: Numbers that results tell the mean, minimum and maximum of, over episodes.
        hist_data: Lists of numbers that results tell the same of, over all of their values.
    """

    _instead: ClassVar[Mapping[str, str]] = INSTEAD
    """What to use in place of members that an episode does not have, for messages."""

    episode_id: int
    env_index: int
    worker: Any = None
    user_data: dict[Any, Any] = field(default_factory=dict)
    custom_metrics: EpisodeMetrics = field(default_factory=EpisodeMetrics)
    hist_data: dict[str, list[float]] = field(default_factory=dict)

    @property
    def custom_data(self) -> dict[Any, Any]:
        """The newer name of `user_data`."""
        return self.user_data

    @property
    def env_id(self) -> int:
        """Another name of `env_index`."""
        return self.env_index

    @property
    def length(self) -> int:
        """Environment steps so far."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True  # also before the first step

    @property
    def total_reward(self) -> float:
        """Sum of all rewards so far."""
        raise NotImplementedError

    def get_return(self) -> float:
        """Return the sum of all rewards so far."""
        return self.total_reward

    @property
    def is_terminated(self) -> bool:
        """Whether the environment has ended it."""
        raise NotImplementedError

    @property
    def is_truncated(self) -> bool:
        """Whether it was cut off."""
        raise NotImplementedError

    @property
    def is_done(self) -> bool:
        """Whether this was its last step."""
        return self.is_terminated or self.is_truncated

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Say what to use instead of a member that is not here."""
            said = self._instead.get(name, "does not exist")
            raise AttributeError(f"episode.{name} {said}")


def row_of(batch: Any, row: int) -> Any:
    """Return a copy of a row of a batch: of an array, or a tree of arrays."""
    if isinstance(batch, dict):
        return {key: row_of(part, row) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row_of(part, row) for part in batch)
    return np.array(batch[row])[()]  # a number, not an array of no dimensions
