"""A policy as one graph: everything between raw observations and actions for the environment.

Its inputs and outputs have the same names in torch, ONNX and MLflow. Inputs:
- the observation's leaves by path, `obs` if it is not nested;
- `prev_reward`, of a policy that sees the reward before;
- `state/<name>`, of a policy that has a state: of a memory, the last frames (`@frames`), the
  encoded action before (`@prev_action`). Zeros begin an episode.

Outputs:
- `action`, or `action/<path>` of a nested space: for the environment;
- `action_dist_inputs` and, of a policy that learns state values, `vf_preds`, as
  `Policy.compute_actions` calls them;
- `next_state/<name>`: to be given as `state/<name>` next. ONNX knows no output that is called as
  an input is.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.data.features import PREV_ACTION, PREV_REWARD
from trainables.core.data.spaces import PLAIN, leaf_spaces, tree_of_leaves
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import State
from trainables.core.networks.modules import PolicyValueModule
from trainables.core.policy.calls.model_view import one_step
from trainables.core.policy.policy import Policy

Named = dict[str, Tensor]

OBS, ACTION = "obs", "action"
PREVIOUS_REWARD = "prev_reward"
DIST_INPUTS, VALUES = "action_dist_inputs", "vf_preds"
STATE, NEXT_STATE = "state/", "next_state/"


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a graph.

    Attributes:
        name: The name, one of those above.
        shape: The shape without the batch.
        dtype: NumPy's name of the type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def zeros(self, batch_size: int) -> np.ndarray:
        """Return a batch of zeros."""
        return np.zeros((batch_size, *self.shape), self.dtype)

    @classmethod
    def of(cls, name: str, tensor: Any) -> TensorSpec:
        """Return the description of a batch, a tensor or an array."""
        return cls(name, tuple(tensor.shape[1:]), str(tensor.dtype).removeprefix("torch."))


class PolicyGraph(nn.Module):
    """A graph of greedy actions, distribution inputs, state values and the next state.

    Args:
        policy: The policy, whose weights are copied.

    Attributes:
        inputs: The inputs in order.
        states: The inputs that are the state, in order.
        state_pairs: The input and the output of each state.
        action_names: The output of each leaf of the action, by path.

    Raises:
        ConfigError: if names of leaves stand for other inputs, too.
    """

    def __init__(self, policy: Policy):
        super().__init__()
        if policy.device.type != "cpu":
            policy = on_cpu(policy)
        # A copy: the learner's parameters are views of one vector, which would go along whole.
        self.module = copy.deepcopy(policy.module).eval()
        self.module.set_noise(None)
        self._policy = policy
        layout = policy.observations.layout
        self._extras = [n for n in layout.leaves(layout.zeros((1,))) if n not in layout.leaf_spaces]
        self._obs_names = observation_names(policy.observation_space)
        self.action_names = action_names(policy.action_space)
        specs = [
            TensorSpec(self._obs_names[path], leaf.shape or (), str(leaf.dtype))
            for path, leaf in layout.leaf_spaces.items()
        ]
        if PREV_REWARD in self._extras:
            specs.append(TensorSpec(PREVIOUS_REWARD, (), "float32"))
        state = dict(policy.initial_state(1))
        if PREV_ACTION in self._extras:
            state[PREV_ACTION] = torch.zeros(1, policy.distribution.num_encoded)
        self.states = [TensorSpec.of(f"{STATE}{name}", part) for name, part in state.items()]
        self.inputs = specs + self.states
        self.state_pairs = {s.name: s.name.replace(STATE, NEXT_STATE, 1) for s in self.states}
        said = (
            [DIST_INPUTS, VALUES] if isinstance(self.module, PolicyValueModule) else [DIST_INPUTS]
        )
        outputs = [*self.action_names.values(), *said, *self.state_pairs.values()]
        check_names([spec.name for spec in self.inputs], outputs)

    def forward(self, inputs: Named) -> Named:
        """Return outputs `[B, …]` by name, of inputs `[B, …]` by name."""
        policy = self._policy
        state = {spec.name.removeprefix(STATE): inputs[spec.name] for spec in self.states}
        features, memory, frames = policy.observations.features_and_state(
            self._stored(inputs, state.pop(PREV_ACTION, None)), state
        )
        output, memory = one_step(policy, self.module, features, memory)
        actions = policy.distribution.mode(output.dist_inputs)
        after: State = memory | frames
        if PREV_ACTION in self._extras:
            after[PREV_ACTION] = policy.distribution.encode(
                policy.actions.to_stored_tensor(actions)
            )
        made = self._for_env(actions)
        return (
            {name: made[path] for path, name in self.action_names.items()}
            | {DIST_INPUTS: output.dist_inputs}
            | ({} if output.values is None else {VALUES: output.values})
            | {new: after[old.removeprefix(STATE)] for old, new in self.state_pairs.items()}
        )

    def arrays(self, rows: np.ndarray, states: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the inputs by name.

        Args:
            rows: Observations as `ObservationLayout` stores them, `[B, *shape]`.
            states: States by input; those that are not given begin an episode.
        """
        leaves = self._policy.observations.layout.leaves(rows)
        named = {name: leaves[path] for path, name in self._obs_names.items()}
        if PREV_REWARD in self._extras:
            named[PREVIOUS_REWARD] = leaves[PREV_REWARD][:, 0]
        for spec in self.states:
            named[spec.name] = states.get(spec.name, spec.zeros(len(rows)))
        return {name: np.array(array) for name, array in named.items()}  # whole, and writable

    def _stored(self, inputs: Named, prev_action: Tensor | None) -> Any:
        """Return observations by path, with what is stored beside them."""
        obs = {path: inputs[name] for path, name in self._obs_names.items()}
        if prev_action is not None:
            obs[PREV_ACTION] = prev_action
        if PREV_REWARD in self._extras:
            obs[PREV_REWARD] = inputs[PREVIOUS_REWARD].unsqueeze(-1)
        return obs[PLAIN] if self._policy.observations.layout.is_plain else obs

    def _for_env(self, actions: Tensor) -> Mapping[str, Tensor]:
        """Return what the environment is given of stored actions, by path."""
        made = self._policy.actions.tensors(actions)
        connectors = self._policy.module_to_env
        if connectors is None:
            return made
        return connectors.tensors(tree_of_leaves(connectors.space, made))


def observation_names(space: gym.Space) -> dict[str, str]:
    """Return the input of each leaf of an observation, by path."""
    return {path: OBS if path == PLAIN else path for path in leaf_spaces(space)}


def action_names(space: gym.Space) -> dict[str, str]:
    """Return the output of each leaf of an action, by path."""
    leaves = leaf_spaces(space, "action space")
    return {path: ACTION if path == PLAIN else f"{ACTION}/{path}" for path in leaves}


def check_names(inputs: Collection[str], outputs: Collection[str]) -> None:
    """Refuse names that stand for two things.

    Raises:
        ConfigError: naming the leaf that is called as something else is.
    """
    for name in inputs:
        if list(inputs).count(name) > 1 or name in outputs:
            raise ConfigError(
                f"the observation's leaf {name!r} has the name of another input or output of the "
                "exported graph; allowed: any other key"
            )


def on_cpu(policy: Policy) -> Policy:
    """Return a copy of a policy that computes on the CPU."""
    twin = Policy(**policy.recipe, metadata=policy.metadata)
    twin.set_state(policy.get_state())
    return twin
