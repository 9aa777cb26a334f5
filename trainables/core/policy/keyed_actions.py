"""Actions for observations by keys of the caller's, computed as one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainables.core.errors import ConfigError
from trainables.core.policy.action_arguments import AnyState, like_given, named_state
from trainables.core.policy.compute_actions import Computed
from trainables.core.policy.connectors.actions import single_action
from trainables.core.policy.policy import Policy


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
    """Actions by key; see `Algorithm.compute_actions`.

    Args:
        policy: Acts for all keys.
        observations: One by key.
        states: By key; an episode begins where there is none.
        prev_action: By key, or as a batch in the order of the observations.
        prev_reward: As `prev_action`.
        full_fetch: Also return states and what else there is.
        options: Of `Policy.compute_actions`.

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
    """One state `[B, …]` of those of single observations, zeros where an episode begins."""
    start = policy.get_initial_state()
    single = [named_state(state, start) or start for state in states]
    for state in single:
        if state.keys() != start.keys():
            raise ConfigError(f"state {sorted(state)} does not fit the policy's {sorted(start)}")
    return {name: np.stack([np.asarray(state[name]) for state in single]) for name in start}


def _in_order(values: Any, keys: list[Any]) -> Any:
    """Values by key as a list; others as they are."""
    if isinstance(values, Mapping) and set(values) == set(keys):
        return [values[key] for key in keys]
    return values
