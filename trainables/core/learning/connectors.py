"""What happens to a rollout before anything is learned from it: the one place for rewards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.policy.policy import Policy

_SETTING = "learner_connector"

RewardBound = bool | float | list[float] | None
LearnerConnector = Callable[[Rollout, Policy], Rollout]


class ClipRewards:
    """The setting `clip_rewards` as a learner connector.

    Args:
        bound: True: the sign of a reward; c: clipped to [-c, c]; [a, b]: to [a, b].
    """

    name = "clip_rewards"

    def __init__(self, bound: bool | float | list[float]):
        self._bound = bound

    def apply(self, setting: str, rollout: Rollout, policy: Policy) -> Rollout:
        """Return the rollout with other rewards."""
        if self._bound is True:
            return replace(rollout, rewards=np.sign(rollout.rewards))
        bound = self._bound
        low, high = bound if isinstance(bound, list) else (-bound, bound)
        rewards = np.clip(rollout.rewards, np.float32(low), np.float32(high))
        return replace(rollout, rewards=rewards)


class LearnerConnectors:
    """The learner connectors of one module, `clip_rewards` first.

    What episodes are reported to have returned, and previous rewards that a policy sees, stay as
    the environment gave them.

    Args:
        given: The setting `learner_connector`.
        clip_rewards: The setting `clip_rewards`.
        policy: Whose spaces factories get; they need it.

    Raises:
        ConfigError: naming the connector and what is wrong with it.
    """

    def __init__(self, given: Any, clip_rewards: RewardBound = None, policy: Policy | None = None):
        self._given: list[Any] = []
        if given is not None:
            self._given = feature("connectors").of_learner(given, policy)
        self._connectors = list(self._given)
        if clip_rewards is not None and clip_rewards is not False:
            self._connectors.insert(0, ClipRewards(clip_rewards))

    def __call__(self, rollout: Rollout, policy: Policy) -> Rollout:
        """Return what is learned from a rollout.

        Raises:
            ConfigError: if a connector gives no rollout of the same rows and slots.
        """
        for connector in self._connectors:
            shape = rollout.rewards.shape
            rollout = connector.apply(_SETTING, rollout, policy)
            if not isinstance(rollout, Rollout):
                raise ConfigError(
                    f"{_SETTING}: {connector.name} gave a {type(rollout).__name__}, not a Rollout"
                    f"{feature('connectors').made_connectors(_SETTING, rollout)}"
                )
            rewards = np.asarray(rollout.rewards)
            if rewards.shape != shape:
                raise ConfigError(
                    f"{_SETTING}: {connector.name} gave rewards of shape {rewards.shape}, not "
                    f"{shape}"
                )
            if not np.isfinite(rewards[rollout.valid]).all():
                raise ConfigError(
                    f"{_SETTING}: {connector.name} gave rewards that are no finite numbers"
                )
            # Nobody acted on the other rows: nothing is earned there either.
            rewards = np.where(rollout.valid, rewards, 0).astype(np.float32, copy=False)
            rollout = replace(rollout, rewards=rewards)
        return rollout

    @property
    def has_state(self) -> bool:
        """Whether a given one remembers what it has seen."""
        return any(hasattr(connector.call, "get_state") for connector in self._given)

    def get_state(self) -> list[Any]:
        """Return the states of given ones that have `get_state` and `set_state`, else None."""
        return [
            connector.call.get_state() if hasattr(connector.call, "get_state") else None
            for connector in self._given
        ]

    def check_state(self, state: list[Any]) -> None:
        """Check that `set_state` can take over a state; nothing is changed.

        Raises:
            ConfigError: if it is of other connectors.
        """
        if len(state) != len(self._given):
            raise ConfigError(
                f"{_SETTING}: the state is of {len(state)} connectors, there are {len(self._given)}"
            )
        for connector, own in zip(self._given, state, strict=True):
            if own is not None and not hasattr(connector.call, "set_state"):
                raise ConfigError(
                    f"{_SETTING}: the state holds what {connector.name} cannot take over; see "
                    "set_state"
                )

    def set_state(self, state: list[Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: if it is of other connectors.
        """
        self.check_state(state)
        for connector, own in zip(self._given, state, strict=True):
            if own is not None:
                connector.call.set_state(own)
