"""`SlotActors`: several policies at work in one vector environment, each in slots of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from trainables.runtime.sampling.module_slots import SlotsOf, join_slots, of_slots


class Acts(Protocol):
    """The interface of what acts in slots: a `SlotActor`, or several as one."""

    def observe(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        lengths: np.ndarray,
        *,
        slots: np.ndarray | None = None,
    ) -> None:
        """Take note of what the environment shows; see `SlotActor.observe`."""

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return actions for the environment, of all slots; see `SlotActor.act`."""


class SlotActors:
    """Acts as one `SlotActor` does: each slot's row goes to its module, and its action comes back.

    Args:
        actors: What acts in the slots of each module, by module id.
        slots: The numbers of each module's slots, `[M]` by module id; all together they are all.
    """

    def __init__(self, actors: Mapping[str, Acts], slots: SlotsOf):
        self._actors, self._slots = dict(actors), slots

    def observe(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        lengths: np.ndarray,
        *,
        slots: np.ndarray | None = None,
    ) -> None:
        """Have each module take note of its slots; see `SlotActor.observe`."""
        for module_id, actor in self._actors.items():
            mine = self._slots[module_id]
            actor.observe(
                of_slots(obs, mine),
                rewards[mine],
                is_first[mine],
                lengths[mine],
                slots=None if slots is None else slots[mine],
            )

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return the actions of all modules, in the order of the slots; see `SlotActor.act`."""
        actions = {}
        for module_id, actor in self._actors.items():
            mine = self._slots[module_id]
            asked = None if slots is None else slots[mine]
            actions[module_id] = actor.act(resets_next[mine], lengths[mine], asked)
        return join_slots(actions, self._slots)


def together(actors: Mapping[str, Acts], slots: SlotsOf) -> Acts:
    """Return what acts in all slots of an environment: the only actor itself, or all as one.

    Args:
        actors: What acts in the slots of each module, by module id.
        slots: The numbers of each module's slots, `[M]` by module id.
    """
    if len(actors) == 1:  # there is nothing to be gathered
        return next(iter(actors.values()))
    return SlotActors(actors, slots)
