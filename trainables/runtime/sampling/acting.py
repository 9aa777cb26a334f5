"""A policy at work in the slots of a vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainables.core.networks.state import reset_state
from trainables.core.policy.actable import Actable
from trainables.core.policy.acting_policy import Acted
from trainables.runtime.random_streams import draw_seed
from trainables.runtime.sampling.row_checks import Place, check_masks, check_observations


class SlotActor:
    """Acts in all slots and keeps what the policy remembers of each: memory, frames, exploration.

    Args:
        policy: The policy that acts. Neither it nor its filter statistics change.
        num_slots: Number of slots of the vector environment.
        place: Whose slots they are, for messages.
        seed: The seed of exploration.
        explore: Whether to sample actions instead of taking the most likely ones.

    Attributes:
        rows: The last observations as the policy's layout stores them, `[N, *shape]`.
    """

    def __init__(
        self,
        policy: Actable,
        num_slots: int,
        place: Place,
        seed: np.random.SeedSequence,
        explore: bool,
    ):
        self._policy, self._place, self._explore = policy, place, explore
        self._generator = torch.Generator(policy.device).manual_seed(draw_seed(seed))
        self._kept = policy.explorer.start(num_slots)  # training's own is not disturbed
        self._state = self._before = policy.initial_state(num_slots)
        self._acted: Acted | None = None
        self.rows: np.ndarray = np.empty(0)

    def act(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        is_over: np.ndarray,
        lengths: np.ndarray,
    ) -> Any:
        """Return actions for the environment.

        Args:
            obs: Observations, batched as the environment gave them.
            rewards: The rewards that came with them, `[N]`.
            is_first: Slots in which an episode begins, `[N]`.
            is_over: Slots whose observation is an episode's last one: nobody acts on it. `[N]`.
            lengths: Steps of the slots' episodes that led to the observations, `[N]`.

        Raises:
            ConfigError: if a slot's mask allows no action.
            SubEnvironmentError: if an observation is no finite numbers.
        """
        policy = self._policy
        if self._acted is None:
            extras = None
        else:
            extras = policy.observations.extras(self._acted.actions, rewards, is_first)
            if self._kept:
                policy.explorer.restart(self._kept, is_first)
        self.rows = policy.observations.layout.rows(obs, extras)
        check_observations(policy.observations, self.rows, lengths, self._place)
        check_masks(policy.observations, self.rows, is_over, lengths, self._place)
        self._before = reset_state(self._state, is_first)
        self._acted = policy.act(
            self.rows, self._explore, self._generator, self._before, self._kept
        )
        self._state = self._acted.state
        return self._acted.env_actions

    def policy_outputs(self) -> dict[str, np.ndarray]:
        """Return what the policy thought of its last actions: see `Actable.policy_outputs`."""
        assert self._acted is not None
        return self._policy.policy_outputs(self.rows, self._before, self._acted)
