"""The interface of a policy that episodes are played with: `Policy`, and exported graphs of one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.data.layout import ObservationLayout
from trainables.core.networks.memory import State
from trainables.core.policy.explorers import SlotState


class Acted(NamedTuple):
    """The actions of a batch of observations.

    Attributes:
        actions: Actions as the distribution gave them, `[N, …]`.
        env_actions: Actions for the environment: an array, or a tree of arrays, `[N, …]`.
        inputs: Inputs of the distribution, `[N, num_inputs]`.
        state: The state after them, `[N, …]` by name; {} if the policy has none.
    """

    actions: Tensor
    env_actions: Any
    inputs: Tensor
    state: State


class SeesObservations(Protocol):
    """The way from observations of a vector environment to rows; see `Observations`."""

    layout: ObservationLayout
    mask_path: str | None

    def extras(self, actions: Tensor | None, rewards: Any, is_first: Any) -> dict[str, Any] | None:
        """Return what is stored beside observations: the action and reward that led to them."""

    def not_finite(self, rows: np.ndarray) -> tuple[int, str] | None:
        """Return the first row of stored `[N]` with NaN or infinity, and its leaf; None: no row."""

    def without_action(self, obs: np.ndarray) -> np.ndarray | None:
        """Return which of stored observations `[N]` allow no action; None if there is no mask."""


class Explores(Protocol):
    """The memory that slots have from step to step while they explore; see `Explorer`."""

    def start(self, num_slots: int) -> SlotState:
        """Return what is kept for slots that all begin an episode; empty if nothing is."""

    def restart(self, slots: SlotState, begins: np.ndarray) -> None:
        """Forget, in place, what is kept for the slots that begin an episode, `[N]` bool."""


class Actable(Protocol):
    """A policy that turns observations into actions for an environment; see `Policy`."""

    observation_space: gym.Space
    action_space: gym.Space
    device: torch.device
    metadata: dict[str, Any]
    has_state: bool

    @property
    def observations(self) -> SeesObservations:
        """The way from observations to rows."""

    @property
    def explorer(self) -> Explores:
        """The memory that slots have while they explore."""

    def initial_state(self, batch_size: int) -> State:
        """Return the state at an episode's start, `[B, …]` by name: zeros."""

    def act(
        self,
        obs: np.ndarray,
        explore: bool,
        generator: torch.Generator | None = None,
        state: State | None = None,
        slots: SlotState | None = None,
    ) -> Acted:
        """Act on rows `[N, *shape]`; see `Policy.act`."""

    def policy_outputs(self, rows: np.ndarray, state: State, acted: Acted) -> dict[str, np.ndarray]:
        """Return what led to actions: at least `action_dist_inputs`, `[B, …]`."""
