"""Actions for observations from anywhere, as users of a policy compute them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.features import PREV_ACTION, PREV_REWARD
from trainables.core.data.spaces import check_observation, zeros_of
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import AnyState, State, state_arrays
from trainables.core.policy.actable import SeesObservations
from trainables.core.policy.actions import ActionConnector, single_action
from trainables.core.policy.calls.action_arguments import (
    ActionArguments,
    like_given,
    named_state,
)
from trainables.core.policy.policy import Policy

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


More = tuple[Mapping[str, Any] | None, dict[str, Any]]
"""A batch of samples that takes the place of arguments, and keywords of other versions."""


def compute_actions(
    policy: Policy, given: tuple[Any, ...], more: More, explore: bool | None, full_fetch: bool
) -> Any:
    """Return what `Policy.compute_actions` does.

    Args:
        policy: The policy that acts.
        given: The fields of `ActionArguments`, in order.
        more: What else was given.
        explore: Whether to sample actions; None: the default.
        full_fetch: Whether to return a `Computed` in any case.
    """
    arguments = ActionArguments(*given).with_more(*more, _seen(policy))
    result = _computed(policy, arguments, explore, full_fetch, batched=True)
    if not isinstance(result, Computed):
        return result
    return result._replace(state=like_given(arguments.state, result.state))


def compute_single_action(
    policy: Policy, given: tuple[Any, ...], more: More, explore: bool | None, full_fetch: bool
) -> Any:
    """Return what `Policy.compute_single_action` does; see `compute_actions`."""
    arguments = ActionArguments(*given).with_more(*more, _seen(policy))
    result = _computed(policy, arguments, explore, full_fetch, batched=False)
    space = policy.action_space
    if not isinstance(result, Computed):
        return single_action(space, result)
    extra = {k: value[0] for k, value in result.extra.items() if k != MODULE_ACTIONS}
    if MODULE_ACTIONS in result.extra:
        extra[MODULE_ACTIONS] = single_action(policy.actions.space, result.extra[MODULE_ACTIONS])
    after = {name: part[0] for name, part in result.state.items()}
    return Computed(single_action(space, result.actions), like_given(arguments.state, after), extra)


def _seen(policy: Policy) -> list[str]:
    """Return the columns of a batch of samples that a policy looks at besides observations."""
    seen = {PREV_ACTION: "prev_actions", PREV_REWARD: "prev_rewards"}
    return [seen[name] for name in policy.observations.extra_widths]


def _computed(
    policy: Policy,
    given: ActionArguments,
    explore: bool | None,
    full_fetch: bool,
    *,
    batched: bool,
) -> Any:
    """Compute actions `[B, …]`, of a batch of one if the arguments are not batched."""
    rows = checked_rows(policy, given.obs, given.prev_action, given.prev_reward, batched=batched)
    names = list(policy.initial_state(1)) if policy.has_state else []
    before = named_state(given.state, names)
    if not batched:
        before = {name: _tensor(part)[None] for name, part in before.items()}
    actions = policy.actions.scaled(given.unsquash, given.clip)
    if actions is not policy.actions and policy.module_to_env is not None:
        raise ConfigError(
            "unsquash_action and clip_action cannot be changed before a "
            "module_to_env_connector, which takes actions as the config makes them; "
            f"full_fetch=True has what it is given as extra[{MODULE_ACTIONS!r}]"
        )
    return compute_rows(policy, rows, before, explore, full_fetch, actions)


def compute_rows(
    policy: Policy,
    rows: np.ndarray,
    state: Mapping[str, Any] | None = None,
    explore: bool | None = None,
    full_fetch: bool = False,
    actions: ActionConnector | None = None,
) -> Any:
    """Compute actions for observations as they are stored; see `Policy.compute_actions`.

    Args:
        policy: The policy that acts.
        rows: Observations with their extras, `[B, *shape]`.
        state: The state, `[B, …]` by name; {} and None begin an episode.
        explore: Whether to sample actions; None: the default.
        full_fetch: Whether to return a `Computed` in any case.
        actions: Makes actions for the environment; None: the policy's own connector.
    """
    explore = policy.explore if explore is None else explore
    before = checked_state(policy, state, len(rows))
    check_allowed(policy.observations, rows)
    acted = policy.act(rows, explore, policy.generator, before)
    env_actions = acted.env_actions
    if actions is not None and actions is not policy.actions:
        env_actions = actions(acted.actions)
    if not (full_fetch or policy.has_state):
        return env_actions
    extra: dict[str, Any] = policy.policy_outputs(rows, before, acted)
    if policy.module_to_env is not None:
        extra[MODULE_ACTIONS] = policy.actions(acted.actions)
    return Computed(env_actions, state_arrays(acted.state), extra)


def checked_state(policy: Policy, state: Mapping[str, Any] | None, batch_size: int) -> State:
    """Return a state `[B, …]` as tensors; that of an episode's start if there is none.

    Raises:
        ConfigError: if it is not of this policy.
    """
    initial = policy.initial_state(batch_size)
    if not state:
        return initial
    if set(state) != set(initial):
        raise ConfigError(
            f"state {sorted(state)} does not fit the policy's {sorted(initial)}"
            + ("" if policy.has_state else ": it is not recurrent")
        )
    given = {name: _tensor(part) for name, part in state.items()}
    for name, part in given.items():
        if part.shape != initial[name].shape:
            raise ConfigError(
                f"state {name!r} has shape {tuple(part.shape)}, the policy's has "
                f"{tuple(initial[name].shape)}"
            )
    return {name: part.to(initial[name]) for name, part in given.items()}


def checked_rows(
    policy: Policy,
    obs: Any,
    prev_action: Any = None,
    prev_reward: Any = None,
    *,
    batched: bool,
) -> np.ndarray:
    """Return observations that fit the policy's space as stored rows, `[B, *shape]`.

    Raises:
        ConfigError: if they do not fit, or the policy does not look at what is given beside them.
    """
    layout, sees = policy.observations.layout, policy.observations.extra_widths
    for name, value, extra in (
        ("prev_action", prev_action, PREV_ACTION),
        ("prev_reward", prev_reward, PREV_REWARD),
    ):
        if value is not None and extra not in sees:
            raise ConfigError(f"{name} = {value!r} has no effect: this policy does not look at it")
    obs = _with_critic_part(policy, obs, batched=batched)
    check_observation(policy.observation_space, obs, batched=batched)
    extras: dict[str, Any] = {}
    if prev_action is not None:
        extras[PREV_ACTION] = encoded_actions(policy, prev_action, batched=batched)
    if prev_reward is not None:
        extras[PREV_REWARD] = np.reshape(np.asarray(prev_reward, np.float32), (-1, 1))
    return layout.rows(obs, extras, batched=batched)


def encoded_actions(policy: Policy, actions: Any, *, batched: bool = True) -> np.ndarray:
    """Return actions as the next observation's row has them, `[B, num_encoded]`.

    Args:
        policy: The policy that looks at them.
        actions: Actions as an environment (or a `module_to_env_connector`) is given them.
        batched: Whether there are several.
    """
    stored = policy.actions.to_stored(actions, batched=batched)
    stored = stored if batched else stored.unsqueeze(0)
    return policy.distribution.encode(stored).cpu().numpy()


def _with_critic_part(policy: Policy, obs: Any, *, batched: bool) -> Any:
    """Return observations in which zeros stand for what only the value function sees.

    Whoever acts by a trained policy need not have it.
    """
    key = policy.options["critic_obs_key"]
    if key is None:
        return obs
    if isinstance(obs, list) and batched:
        return [_with_critic_part(policy, one, batched=False) for one in obs]
    if not isinstance(obs, Mapping) or key in obs or not obs:
        return obs
    space = policy.observation_space.spaces[key]  # type: ignore[attr-defined]  # it is a Dict
    first: Any = obs
    while isinstance(first, (Mapping, tuple)):
        first = next(iter(first.values() if isinstance(first, Mapping) else first))
    return {**obs, key: zeros_of(space, (len(first),) if batched else ())}


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
    policy: Policy,
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


def _batched(policy: Policy, states: list[AnyState]) -> dict[str, np.ndarray]:
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
