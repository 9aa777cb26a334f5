"""A policy behind a server: its inputs and outputs as tensors by name.

- A policy without a state over a plain space takes one array and gives one, as it always does.
- Otherwise inputs are the observation's leaves by path (`obs` if it is not nested) and the state as
  `state/<name>`; outputs are `action`, or `action/<path>`, and the state after it, which has the
  same names as before it. The names are those of exported graphs, see `policy_graph`: a policy that
  sees the action before has it, encoded, in its state, and one that sees its reward takes
  `prev_reward`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainables.core.data.features import PREV_ACTION, PREV_REWARD
from trainables.core.data.spaces import PLAIN, check_observation, leaves_of, tree_of_leaves
from trainables.core.export.policy_graph import (
    OBS,
    PREVIOUS_REWARD,
    STATE,
    action_names,
    observation_names,
)
from trainables.core.policy.calls.compute_actions import (
    MODULE_ACTIONS,
    compute_rows,
    encoded_actions,
)
from trainables.core.policy.policy import Policy

Named = np.ndarray | dict[str, np.ndarray]


def example_inputs(policy: Policy) -> Named:
    """Return one observation at an episode's start, as a batch of one."""
    policy.observation_space.seed(0)
    rows = policy.observations.layout.rows(policy.observation_space.sample(), batched=False)
    leaves = {
        path: policy.observations.layout.leaves(rows)[path]
        for path in policy.observations.layout.leaf_spaces
    }
    state = {f"{STATE}{name}": part[None] for name, part in policy.get_initial_state().items()}
    beside = policy.observations.extra_widths
    if PREV_ACTION in beside:
        state[f"{STATE}{PREV_ACTION}"] = np.zeros((1, beside[PREV_ACTION]), np.float32)
    if PREV_REWARD in beside:
        state[PREVIOUS_REWARD] = np.zeros(1, np.float32)
    if set(leaves) == {PLAIN} and not state:
        return leaves[PLAIN]
    names = observation_names(policy.observation_space)
    return {names[path]: leaf for path, leaf in leaves.items()} | state


def serve(policy: Policy, inputs: Named | Mapping[str, Any], explore: bool = False) -> Named:
    """Compute actions for a batch of observations.

    Args:
        policy: The policy that acts.
        inputs: Inputs `[B, …]`, see above. Without a state, an episode begins.
        explore: Whether to sample actions instead of taking the most likely ones.
    """
    given = dict(inputs) if isinstance(inputs, Mapping) else {PLAIN: np.asarray(inputs)}
    state = {n.removeprefix(STATE): given[n] for n in given if n.startswith(STATE)}
    if PLAIN not in given and PLAIN in policy.observations.layout.leaf_spaces:
        given[PLAIN] = given[OBS]
    # Zeros, as they are where nothing is given, mean that nothing came before.
    beside = {}
    if PREV_ACTION in state:
        beside[PREV_ACTION] = state.pop(PREV_ACTION)
    if PREVIOUS_REWARD in given:
        beside[PREV_REWARD] = np.reshape(np.asarray(given[PREVIOUS_REWARD]), (-1, 1))
    obs = tree_of_leaves(policy.observation_space, given)
    check_observation(policy.observation_space, obs, batched=True)
    rows = policy.observations.layout.rows(obs, beside)
    result = compute_rows(policy, rows, state or None, explore)
    actions, after, extra = result if policy.has_state else (result, {}, {})
    if PREV_ACTION in policy.observations.extra_widths:
        led_to = extra.get(MODULE_ACTIONS, actions)
        after = after | {PREV_ACTION: encoded_actions(policy, led_to)}
    leaves = leaves_of(policy.action_space, actions)
    if set(leaves) == {PLAIN} and not after:
        return np.asarray(actions)
    named = {action_names(policy.action_space)[path]: leaf for path, leaf in leaves.items()}
    return named | {f"{STATE}{name}": part for name, part in after.items()}
