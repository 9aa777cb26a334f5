"""A policy behind a server: its inputs and outputs as tensors by name.

- A policy without a state over a plain space takes one array and gives one, as it always does.
- Otherwise inputs are the observation's leaves by path (`obs` if it is not nested) and the state as
  `state/<name>`; outputs are `action`, or `action/<path>`, and the state after it, which has the
  same names as before it. The names are those of exported graphs, see `graph_names`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainables.core.graph_names import OBS, STATE, action_names, observation_names
from trainables.core.policy import Policy
from trainables.core.spaces import PLAIN, leaves_of, tree_of_leaves

Named = np.ndarray | dict[str, np.ndarray]


def example_inputs(policy: Policy) -> Named:
    """One observation at an episode's start, as a batch of one."""
    policy.observation_space.seed(0)
    rows = policy.observations.layout.rows(policy.observation_space.sample(), batched=False)
    leaves = {
        path: policy.observations.layout.leaves(rows)[path]
        for path in policy.observations.layout.leaf_spaces
    }
    state = {f"{STATE}{name}": part[None] for name, part in policy.get_initial_state().items()}
    if set(leaves) == {PLAIN} and not state:
        return leaves[PLAIN]
    names = observation_names(policy.observation_space)
    return {names[path]: leaf for path, leaf in leaves.items()} | state


def serve(policy: Policy, inputs: Named | Mapping[str, Any], explore: bool = False) -> Named:
    """Actions for a batch of observations.

    Args:
        policy: Acts.
        inputs: `[B, …]`, see above. Without a state, an episode begins.
        explore: Sample actions instead of taking the most likely ones.
    """
    given = dict(inputs) if isinstance(inputs, Mapping) else {PLAIN: np.asarray(inputs)}
    state = {n.removeprefix(STATE): given[n] for n in given if n.startswith(STATE)}
    if PLAIN not in given and PLAIN in policy.observations.layout.leaf_spaces:
        given[PLAIN] = given[OBS]
    obs = tree_of_leaves(policy.observation_space, given)
    result = policy.compute_actions(obs, state or None, explore=explore)
    actions, after, _ = result if policy.has_state else (result, {}, None)
    leaves = leaves_of(policy.action_space, actions)
    if set(leaves) == {PLAIN} and not after:
        return np.asarray(actions)
    named = {action_names(policy.action_space)[path]: leaf for path, leaf in leaves.items()}
    return named | {f"{STATE}{name}": part for name, part in after.items()}
