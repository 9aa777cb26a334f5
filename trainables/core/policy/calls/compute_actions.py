"""Actions for observations from anywhere, as users of a policy compute them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.features import PREV_ACTION, PREV_REWARD
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import State, state_arrays
from trainables.core.networks.modules import PolicyValueModule, unroll_row
from trainables.core.policy.actable import SeesObservations
from trainables.core.policy.acting_policy import Acted, ActingPolicy
from trainables.core.policy.actions import ActionConnector, single_action
from trainables.core.policy.calls.action_arguments import (
    ActionArguments,
    AnyState,
    like_given,
    named_state,
)

MODULE_ACTIONS = "module_actions"


class Computed(NamedTuple):
    """The result of `compute_actions` with `full_fetch`, and of every policy that has a state.

    Attributes:
        actions: Actions for the environment.
        state: The state to be given with the next observations, in the form of the one before:
            by name, or a list of its parts; {} if the policy has none.
        extra: `action_dist_inputs`, of DQN its action values; `action_logp`; `vf_preds` of a policy
            that learns state values; with a `module_to_env_connector` also `module_actions`, what
            it was given.
    """

    actions: Any
    state: Any
    extra: dict[str, Any]


class ComputesActions(ActingPolicy):
    """The part of `Policy` that checks observations and states, acts, and says on what grounds."""

    def compute_actions(
        self,
        obs: Any = None,
        state: AnyState = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        input_dict: Mapping[str, Any] | None = None,
        full_fetch: bool = False,
        explore: bool | None = None,
        timestep: int | None = None,
        episodes: Any = None,
        unsquash_actions: bool | None = None,
        clip_actions: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute actions for a batch of observations.

        Args:
            obs: Raw observations `[B, *shape]`; of a Dict or Tuple space a tree of such arrays, or
                a list of observations.
            state: The state of a policy that has one, `[B, …]` by name, or a list in the order of
                `initial_state`; None begins an episode.
            prev_action: The action before, `[B, …]`, for policies that look at it; None at an
                episode's start. With a `module_to_env_connector` the one it was given, i.e.
                `extra["module_actions"]`.
            prev_reward: The reward of the action before, `[B]`.
            info: The environment's infos, which callers of the reference pass on: no policy here
                looks at them.
            input_dict: A batch of samples with `obs`, `state_in_0`, …, `prev_actions` and
                `prev_rewards`, instead of `obs`, `state`, `prev_action` and `prev_reward`.
            full_fetch: Whether to return the state, too, and a dict with `action_dist_inputs`,
                `action_logp` and, if state values are learned, `vf_preds`. Recurrent policies
                always do.
            explore: Whether to sample actions or to take the most likely ones; None: the default.
            timestep: The number of environment steps so far. Schedules of exploration look at it
                in `Algorithm.compute_actions`; a policy by itself has no schedule, but the values
                that it was given last.
            episodes: Episodes of the reference; like `info` they have no effect.
            unsquash_actions: Whether to stretch continuous actions from [-1, 1] to the bounds of
                the action space and clip them, or leave them in the normalised space. None: as
                `normalize_actions` of the config says.
            clip_actions: Whether to clip those that are not stretched; None: as the setting says.
            kwargs: Arguments of other versions: one warning names them.

        Returns:
            Actions for the environment, `[B, …]`; with `full_fetch`, or of a recurrent policy, the
            three.

        Raises:
            ConfigError: if observations do not fit the observation space.
        """
        given = ActionArguments(
            obs, state, prev_action, prev_reward, unsquash_actions, clip_actions
        ).with_more(input_dict, kwargs, self._sees)
        result = self._computed(given, explore, full_fetch, batched=True)
        if not isinstance(result, Computed):
            return result
        return result._replace(state=like_given(given.state, result.state))

    def compute_single_action(
        self,
        obs: Any = None,
        state: AnyState = None,
        *,
        prev_action: Any = None,
        prev_reward: float | None = None,
        info: Any = None,
        input_dict: Mapping[str, Any] | None = None,
        full_fetch: bool = False,
        explore: bool | None = None,
        timestep: int | None = None,
        episode: Any = None,
        unsquash_action: bool | None = None,
        clip_action: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the action for one observation, without a batch axis; see `compute_actions`."""
        given = ActionArguments(
            obs, state, prev_action, prev_reward, unsquash_action, clip_action
        ).with_more(input_dict, kwargs, self._sees)
        result = self._computed(given, explore, full_fetch, batched=False)
        if not isinstance(result, Computed):
            return single_action(self.action_space, result)
        extra = {k: value[0] for k, value in result.extra.items() if k != MODULE_ACTIONS}
        if MODULE_ACTIONS in result.extra:
            extra[MODULE_ACTIONS] = single_action(self.actions.space, result.extra[MODULE_ACTIONS])
        after = {name: part[0] for name, part in result.state.items()}
        return Computed(
            single_action(self.action_space, result.actions), like_given(given.state, after), extra
        )

    @property
    def _sees(self) -> list[str]:
        """The columns of a batch of samples that it looks at besides observations and state."""
        seen = {PREV_ACTION: "prev_actions", PREV_REWARD: "prev_rewards"}
        return [seen[name] for name in self.observations.extra_widths]

    def _computed(
        self, given: ActionArguments, explore: bool | None, full_fetch: bool, *, batched: bool
    ) -> Any:
        """Compute actions `[B, …]`, of a batch of one if the arguments are not batched."""
        rows = self.observations.checked_rows(
            given.obs, given.prev_action, given.prev_reward, batched=batched
        )
        names = list(self.initial_state(1)) if self.has_state else []
        before = named_state(given.state, names)
        if not batched:
            before = {name: _tensor(part)[None] for name, part in before.items()}
        actions = self.actions.scaled(given.unsquash, given.clip)
        if actions is not self.actions and self.module_to_env is not None:
            raise ConfigError(
                "unsquash_action and clip_action cannot be changed before a "
                "module_to_env_connector, which takes actions as the config makes them; "
                f"full_fetch=True has what it is given as extra[{MODULE_ACTIONS!r}]"
            )
        return self.compute_rows(rows, before, explore, full_fetch, actions)

    def compute_rows(
        self,
        rows: np.ndarray,
        state: Mapping[str, Any] | None = None,
        explore: bool | None = None,
        full_fetch: bool = False,
        actions: ActionConnector | None = None,
    ) -> Any:
        """Compute actions for observations as they are stored; see `compute_actions`.

        Args:
            rows: Observations with their extras, `[B, *shape]`.
            state: The state, `[B, …]` by name; {} and None begin an episode.
            explore: Whether to sample actions; None: the default.
            full_fetch: Whether to return a `Computed` in any case.
            actions: Makes actions for the environment; None: the policy's own connector.
        """
        explore = self.explore if explore is None else explore
        before = self.checked_state(state, len(rows))
        check_allowed(self.observations, rows)
        acted = self.act(rows, explore, self._generator, before)
        env_actions = acted.env_actions
        if actions is not None and actions is not self.actions:
            env_actions = actions(acted.actions)
        if not (full_fetch or self.has_state):
            return env_actions
        extra: dict[str, Any] = self.policy_outputs(rows, before, acted)
        if self.module_to_env is not None:
            extra[MODULE_ACTIONS] = self.actions(acted.actions)
        return Computed(env_actions, state_arrays(acted.state), extra)

    def policy_outputs(self, rows: np.ndarray, state: State, acted: Acted) -> dict[str, np.ndarray]:
        """Return what led to actions: `action_dist_inputs`, `action_logp`, `vf_preds`, `[B, …]`.

        A policy that learns no state values has no `vf_preds`.

        Args:
            rows: The observations that were acted on.
            state: The state before them.
            acted: The result of `act`.
        """
        outputs = {
            "action_dist_inputs": acted.inputs.cpu().numpy(),
            "action_logp": self.distribution.logp(acted.inputs, acted.actions).cpu().numpy(),
        }
        if isinstance(self.module, PolicyValueModule):
            outputs["vf_preds"] = self._values(self.module, rows, state).cpu().numpy()
        return outputs

    @torch.inference_mode()
    def _values(self, module: PolicyValueModule, rows: np.ndarray, state: State) -> Tensor:
        """Return the values `[B]` of rows with the state before them."""
        module.set_noise(None)
        features, state, _ = self.observations.features_and_state(rows, state)
        if not self.is_recurrent:
            return module.value(features)
        output, _ = unroll_row(module.unroll, features, state)
        values: Tensor = output.values[0]
        return values

    def checked_state(self, state: Mapping[str, Any] | None, batch_size: int) -> State:
        """Return a state `[B, …]` as tensors; that of an episode's start if there is none.

        Raises:
            ConfigError: if it is not of this policy.
        """
        initial = self.initial_state(batch_size)
        if not state:
            return initial
        if set(state) != set(initial):
            raise ConfigError(
                f"state {sorted(state)} does not fit the policy's {sorted(initial)}"
                + ("" if self.has_state else ": it is not recurrent")
            )
        given = {name: _tensor(part) for name, part in state.items()}
        for name, part in given.items():
            if part.shape != initial[name].shape:
                raise ConfigError(
                    f"state {name!r} has shape {tuple(part.shape)}, the policy's has "
                    f"{tuple(initial[name].shape)}"
                )
        return {name: part.to(initial[name]) for name, part in given.items()}


def check_allowed(observations: SeesObservations, rows: np.ndarray) -> None:
    """Check that the action masks of stored observations `[B]` allow an action each.

    Raises:
        ConfigError: naming the first row that does not.
    """
    impossible = observations.without_action(rows)
    if impossible is not None and impossible.any():
        row = int(impossible.argmax())
        raise ConfigError(f"observation {row}: {observations.mask_path!r} allows no action")


def keyed_actions(
    policy: ComputesActions,
    observations: Mapping[Any, Any],
    states: Any = None,
    *,
    prev_action: Any = None,
    prev_reward: Any = None,
    full_fetch: bool = False,
    **options: Any,
) -> Any:
    """Compute actions for observations by key, as one batch; see `Algorithm.compute_actions`.

    Args:
        policy: The policy that acts for all keys.
        observations: Single observations by key.
        states: States by key; an episode begins where there is none.
        prev_action: Actions before by key, or a batch in the order of the observations.
        prev_reward: Rewards before by key, or a batch in the order of the observations.
        full_fetch: Whether to return states, too, and what else there is.
        options: Further arguments of `Policy.compute_actions`.

    Raises:
        ConfigError: if states are not by the observations' keys.
    """
    if not observations:
        return {}
    keys = list(observations)
    if states and (not isinstance(states, Mapping) or not states.keys() <= set(keys)):
        raise ConfigError(
            f"state must be a dict by the keys of the observations, {keys}; it is {states!r}"
        )
    given: Mapping[Any, AnyState] = states if isinstance(states, Mapping) else {}
    result = policy.compute_actions(
        [observations[key] for key in keys],
        _batched(policy, [given.get(key) for key in keys]),
        prev_action=_in_order(prev_action, keys),
        prev_reward=_in_order(prev_reward, keys),
        full_fetch=full_fetch,
        **options,
    )
    actions = result.actions if isinstance(result, Computed) else result
    by_key = {key: single_action(policy.action_space, actions, i) for i, key in enumerate(keys)}
    if not isinstance(result, Computed):
        return by_key
    after = {
        key: like_given(given.get(key), {name: part[i] for name, part in result.state.items()})
        for i, key in enumerate(keys)
    }
    return Computed(by_key, after, result.extra)


def _batched(policy: ComputesActions, states: list[AnyState]) -> dict[str, np.ndarray]:
    """Return one state `[B, …]` of those of single observations; zeros begin an episode."""
    start = policy.get_initial_state()
    single = [named_state(state, start) or start for state in states]
    for state in single:
        if state.keys() != start.keys():
            raise ConfigError(f"state {sorted(state)} does not fit the policy's {sorted(start)}")
    return {name: np.stack([np.asarray(state[name]) for state in single]) for name in start}


def _in_order(values: Any, keys: list[Any]) -> Any:
    """Return values by key as a list, others as they are."""
    if isinstance(values, Mapping) and set(values) == set(keys):
        return [values[key] for key in keys]
    return values


def _tensor(part: Any) -> Tensor:
    """Return a part of a state, which callers give as an array or a tensor."""
    return part if isinstance(part, Tensor) else torch.as_tensor(np.array(part))
