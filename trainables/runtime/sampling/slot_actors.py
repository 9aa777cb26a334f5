"""`SlotActors`: several policies at work in one vector environment, each in slots of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from trainables.core.data.spaces import leaves_of, map_leaves, tree_of_leaves


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
        env: The vector environment that has the slots.
    """

    def __init__(
        self, actors: Mapping[str, Acts], slots: Mapping[str, np.ndarray], env: gym.vector.VectorEnv
    ):
        self._parts = [(actor, slots[module_id]) for module_id, actor in actors.items()]
        self._observation_space = env.single_observation_space
        self._action_space, self._num_slots = env.single_action_space, env.num_envs

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
        for actor, mine in self._parts:
            asked = None if slots is None else slots[mine]
            if asked is not None and not asked.any():
                continue
            actor.observe(
                of_slots(self._observation_space, obs, mine),
                rewards[mine],
                is_first[mine],
                lengths[mine],
                slots=asked,
            )

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return the actions of all modules, in the order of the slots; see `SlotActor.act`."""
        joined: dict[str, np.ndarray] = {}
        for actor, mine in self._parts:
            asked = None if slots is None else slots[mine]
            if asked is not None and not asked.any():
                continue  # what it says would not be used
            actions = actor.act(resets_next[mine], lengths[mine], asked)
            for path, leaf in leaves_of(self._action_space, actions).items():
                leaf = np.asarray(leaf)
                if path not in joined:
                    joined[path] = np.zeros((self._num_slots, *leaf.shape[1:]), leaf.dtype)
                joined[path][mine] = leaf
        return tree_of_leaves(self._action_space, joined)


def together(
    actors: Mapping[str, Acts], slots: Mapping[str, np.ndarray], env: gym.vector.VectorEnv
) -> Acts:
    """Return what acts in all slots of an environment: the only actor itself, or all as one.

    Args:
        actors: What acts in the slots of each module, by module id.
        slots: The numbers of each module's slots, `[M]` by module id.
        env: The vector environment that has the slots.
    """
    if len(actors) == 1:  # there is nothing to be gathered
        return next(iter(actors.values()))
    return SlotActors(actors, slots, env)


def of_slots(space: gym.Space, batch: Any, slots: np.ndarray) -> Any:
    """Return the rows of some slots of a batch of a space, as a vector environment gives it."""
    return map_leaves(lambda _, leaf: np.asarray(leaf)[slots], space, batch)
