"""Actions for observations from anywhere: what users of a policy call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.action_connector import ActionConnector, single_action
from trainables.core.distributions import Distribution
from trainables.core.features import Features
from trainables.core.module_to_env import ModuleToEnv
from trainables.core.modules import ModuleOutput, PolicyModule
from trainables.core.observations import Observations
from trainables.core.recurrent_state import State, state_arrays
from trainables.core.settings import ConfigError

MODULE_ACTIONS = "module_actions"


class Computed(NamedTuple):
    """What `compute_actions` gives with `full_fetch`, and always of a policy that has a state.

    Attributes:
        actions: For the environment.
        state: To be given with the next observations; {} of a policy that has none.
        extra: `action_dist_inputs`, `action_logp` and `vf_preds`; with a `module_to_env_connector`
            also `module_actions`, what it was given.
    """

    actions: Any
    state: dict[str, np.ndarray]
    extra: dict[str, Any]


class ComputesActions:
    """Part of `Policy`: checks observations and states, acts, and says what it thought of them."""

    explore: bool
    has_state: bool
    is_recurrent: bool
    action_space: gym.Space
    observations: Observations
    distribution: Distribution
    actions: ActionConnector
    module_to_env: ModuleToEnv | None
    module: PolicyModule
    _generator: torch.Generator

    if TYPE_CHECKING:
        from trainables.core.policy import Acted

        def act(
            self,
            obs: np.ndarray,
            explore: bool,
            generator: torch.Generator | None = None,
            state: State | None = None,
        ) -> Acted: ...

        def initial_state(self, batch_size: int) -> State: ...

        def unroll_one(
            self, module: PolicyModule, features: Features, state: State
        ) -> tuple[ModuleOutput, State]: ...

    def compute_actions(
        self,
        obs: Any,
        state: Mapping[str, Any] | None = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """Actions for a batch of observations.

        Args:
            obs: Raw observations `[B, *shape]`; of a Dict or Tuple space a tree of such arrays, or
                a list of observations.
            state: Of a policy that has one, `[B, …]` by name; None begins an episode.
            prev_action: The action before, `[B, …]`, for policies that look at it; None at an
                episode's start. With a `module_to_env_connector` the one it was given, i.e.
                `extra["module_actions"]`.
            prev_reward: What it gave in return, `[B]`.
            explore: Sample (True) or take the most likely actions (False); None: the default.
            full_fetch: Also return the state and a dict with `action_dist_inputs`,
                `action_logp` and `vf_preds`. Recurrent policies always do.

        Returns:
            Actions for the environment, `[B, …]`; with `full_fetch`, or of a recurrent policy, the
            three.

        Raises:
            ConfigError: if observations do not fit the observation space.
        """
        rows = self.observations.checked_rows(obs, prev_action, prev_reward, batched=True)
        return self.compute_rows(rows, state, explore, full_fetch)

    def compute_single_action(
        self,
        obs: Any,
        state: Mapping[str, Any] | None = None,
        *,
        prev_action: Any = None,
        prev_reward: float | None = None,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """The action for one observation; see `compute_actions`."""
        rows = self.observations.checked_rows(obs, prev_action, prev_reward, batched=False)
        if state is not None:
            state = {name: np.asarray(part)[None] for name, part in state.items()}
        result = self.compute_rows(rows, state, explore, full_fetch)
        if not isinstance(result, Computed):
            return single_action(self.action_space, result)
        extra = {k: value[0] for k, value in result.extra.items() if k != MODULE_ACTIONS}
        if MODULE_ACTIONS in result.extra:
            extra[MODULE_ACTIONS] = self.actions.single(result.extra[MODULE_ACTIONS])
        return Computed(
            single_action(self.action_space, result.actions),
            {name: part[0] for name, part in result.state.items()},
            extra,
        )

    def compute_rows(
        self,
        rows: np.ndarray,
        state: Mapping[str, Any] | None = None,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """`compute_actions` of observations as they are stored, with what led to them."""
        explore = self.explore if explore is None else explore
        before = self._checked_state(state, len(rows))
        impossible = self.observations.without_action(rows)
        if impossible is not None and impossible.any():
            mask, row = self.observations.mask_path, int(impossible.argmax())
            raise ConfigError(f"observation {row}: {mask!r} allows no action")
        acted = self.act(rows, explore, self._generator, before)
        if not (full_fetch or self.has_state):
            return acted.env_actions
        extra: dict[str, Any] = self.thoughts(rows, before, acted)
        if self.module_to_env is not None:
            extra[MODULE_ACTIONS] = self.actions(acted.actions)
        return Computed(acted.env_actions, state_arrays(acted.state), extra)

    def thoughts(self, rows: np.ndarray, state: State, acted: Acted) -> dict[str, np.ndarray]:
        """What led to actions: `action_dist_inputs`, `action_logp` and `vf_preds`, `[B, …]`.

        Args:
            rows: That were acted on.
            state: Before them.
            acted: What `act` gave.
        """
        return {
            "action_dist_inputs": acted.inputs.cpu().numpy(),
            "action_logp": self.distribution.logp(acted.inputs, acted.actions).cpu().numpy(),
            "vf_preds": self._values(rows, state).cpu().numpy(),
        }

    @torch.inference_mode()
    def _values(self, rows: np.ndarray, state: State) -> Tensor:
        """Values `[B]` of rows with the state before them."""
        self.module.set_noise(None)
        features, state, _ = self.observations.look(rows, state)
        if self.is_recurrent:
            return self.unroll_one(self.module, features, state)[0].values
        return self.module.value(features)

    def _checked_state(self, state: Mapping[str, Any] | None, batch_size: int) -> State:
        initial = self.initial_state(batch_size)
        if state is None or (not self.has_state and not state):
            return initial
        if set(state) != set(initial):
            raise ConfigError(
                f"state {sorted(state)} does not fit the policy's {sorted(initial)}"
                + ("" if self.has_state else ": it is not recurrent")
            )
        given = {name: torch.as_tensor(np.array(part)) for name, part in state.items()}
        for name, part in given.items():
            if part.shape != initial[name].shape:
                raise ConfigError(
                    f"state {name!r} has shape {tuple(part.shape)}, the policy's has "
                    f"{tuple(initial[name].shape)}"
                )
        return {name: part.to(initial[name]) for name, part in given.items()}
