"""What an environment gives must be finite numbers and allow an action, or it is refused."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from trainables.core.data.spaces import PLAIN
from trainables.core.errors import ConfigError
from trainables.core.policy.actable import SeesObservations
from trainables.runtime.envs.make import EnvName, env_name
from trainables.runtime.envs.sub_environment import SubEnvironmentError

_ADVICE = (
    "nothing was learned from it. Mend the environment, make numbers of its observations "
    "(env_to_module_connector), or have one that does so replaced (restart_failed_sub_environments)"
)


class NamesSlots(Protocol):
    """How messages call the slots that are looked at; see `Place`."""

    @property
    def env(self) -> EnvName:
        """The environment."""

    def slot(self, index: int) -> str:
        """Return how a slot is called."""

    def number(self, index: int) -> int | str:
        """Return the number of a slot."""


class Place(NamedTuple):
    """Whose slots are stepped, for messages.

    Attributes:
        env: The environment.
        who: What steps it, e.g. "env runner 0".
        slots: The numbers of the slots that are looked at; None: all, in their order.
    """

    env: EnvName
    who: str
    slots: np.ndarray | None = None

    def slot(self, index: int) -> str:
        """Return how a slot is called, as its `SlotMaker` is."""
        return f"env {env_name(self.env)!r}, slot {self.number(index)} of {self.who}"

    def number(self, index: int) -> int:
        """Return the number of a slot, from its place among those that are looked at."""
        return index if self.slots is None else int(self.slots[index])


def check_rewards(rewards: np.ndarray, steps: np.ndarray, place: NamesSlots) -> None:
    """Raise unless all rewards are finite.

    Args:
        rewards: The rewards of the slots, `[N]`.
        steps: Steps of the slots' episodes before this one, `[N]`.
        place: Where it is, for the message.

    Raises:
        SubEnvironmentError: naming environment, slot and step.
    """
    if math.isfinite(np.vdot(rewards, rewards)):  # a tenth of the time of looking at each
        return
    is_finite = np.isfinite(rewards)  # large numbers are, whose squares are not
    if not is_finite.all():
        slot = int(is_finite.argmin())
        raise SubEnvironmentError(
            f"{place.slot(slot)}: the reward of step {steps[slot] + 1} of its episode is "
            f"{rewards[slot]}; {_ADVICE}"
        )


def check_observations(
    observations: SeesObservations, rows: np.ndarray, steps: np.ndarray, place: NamesSlots
) -> None:
    """Raise unless all numbers of observations are finite, or connectors make such of them.

    Args:
        observations: How the policy sees observations.
        rows: Observations as its layout stores them, `[N, *shape]`.
        steps: Steps of the slots' episodes that led to them, `[N]`; 0 of an episode's first.
        place: Where it is, for the message.

    Raises:
        SubEnvironmentError: naming environment, slot, step, and where it is in the observation.
    """
    found = observations.not_finite(rows)
    if found is None:
        return
    slot, path = found
    values = observations.layout.leaves(rows)[path][slot]
    index = np.argwhere(~np.isfinite(values))[0].tolist()
    where = "" if path == PLAIN else f"{path!r} "
    raise SubEnvironmentError(
        f"{place.slot(slot)}: the observation after step {steps[slot]} of its episode is "
        f"{values[tuple(index)]} at {where}{index}; {_ADVICE}"
    )


def check_masks(
    observations: SeesObservations,
    rows: np.ndarray,
    resets_next: np.ndarray,
    steps: np.ndarray,
    place: NamesSlots,
) -> None:
    """Raise if a slot must act and its action mask allows nothing.

    Args:
        observations: How the policy sees observations.
        rows: Observations as its layout stores them, `[N, *shape]`.
        resets_next: Slots whose observation is an episode's last one: nobody acts on it. `[N]`.
        steps: Steps of the slots' episodes so far, `[N]`.
        place: Where it is, for the message.

    Raises:
        ConfigError: naming environment, step and slot.
    """
    impossible = observations.without_action(rows)
    if impossible is None:
        return
    impossible &= ~resets_next
    if impossible.any():
        slot = int(impossible.argmax())
        raise ConfigError(
            f"env {env_name(place.env)!r}: its {observations.mask_path!r} allows no action "
            f"at step {steps[slot]} of the episode in slot {place.number(slot)}"
        )
