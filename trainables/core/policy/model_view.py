"""`Policy.model`: a policy's networks with the methods that users of the reference know.

Training never goes through it: it calls the networks themselves, `Policy.module`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.features import VECTOR, Features
from trainables.core.errors import ConfigError
from trainables.core.networks.state import State
from trainables.core.policy.action_arguments import AnyState, like_given, named_state
from trainables.core.policy.layer_summary import LayerView

if TYPE_CHECKING:
    from trainables.core.policy.policy import Policy

_Q = "belongs to DQN, whose networks give action values; policy.forward(obs) has what these give"
# Names of the reference's models that are not here, with what to call.
_INSTEAD = {
    **dict.fromkeys(
        ("get_q_value_distributions", "get_state_value", "q_value_head", "state_value_head"), _Q
    ),
    "get_initial_state": "is policy.get_initial_state() here",
    "num_outputs": "is policy.distribution.num_inputs here",
    "obs_space": "is policy.observation_space here",
    "action_space": "is policy.action_space here",
    "model_config": "is policy.options['model'] here",
    "action_model": "is policy.module.actor here",
    "get_q_values": "is policy.module.critic, with policy.features(rows) and actions here",
    "get_action_model_outputs": "is policy.forward(obs).dist_inputs here",
    "custom_loss": "is a learner_class of yours here",
    "import_from_h5": "is policy.set_weights(weights) here",
}


class ModelView(LayerView):
    """The networks of a policy, called with features or as the reference's models are.

    What it has no name for is looked up in the networks: `parameters()`, `state_dict()`, layers.

    Args:
        policy: Whose networks.
    """

    def __init__(self, policy: Policy):
        super().__init__(policy.module, "policy.model", _INSTEAD)
        self._policy = policy
        self._last: tuple[Tensor, Tensor, Features] | None = None

    def __call__(self, given: Any, state: AnyState = None, seq_lens: Any = None) -> Any:
        """Run the networks forward, with gradients.

        Args:
            given: Features, which gives what the networks give. Or `{"obs": …}`, as the reference
                does: observations `[B, …]`, raw or as `get_preprocessor` transforms them. The
                observation filter is applied to them.
            state: With `{"obs": …}`, of a memory or of stacked frames; None begins an episode.
            seq_lens: With `{"obs": …}`, ones: each row is a step.

        Returns:
            With `{"obs": …}` the inputs of the action distribution, `[B, num_inputs]` (of DQN what
            its heads are given, `[B, width]`), and the state after it, a list.

        Raises:
            ConfigError: if observations fit neither the space nor the networks.
        """
        if not isinstance(given, Mapping) or "obs" not in given or self._takes(given):
            return self._module(given)
        if seq_lens is not None and (np.asarray(seq_lens) != 1).any():
            raise ConfigError(
                f"seq_lens = {seq_lens!r} is not supported: rows are steps by themselves; "
                "policy.module.unroll runs over sequences"
            )
        policy = self._policy
        policy.module.set_noise(None)
        features, before, frames = self._look(given["obs"], state)
        out, values, after = self._forward(features, before)
        self._last = out, values, features
        if state is None or not policy.has_state:
            state = []
        return out, like_given(state, after | frames)

    def value_function(self) -> Tensor:
        """State values `[B]` of the last `model({"obs": …})`; of action values their maximum."""
        return self._last_pass()[1]

    def last_output(self) -> Tensor:
        """Return the first part of what the last `model({"obs": …})` gave."""
        return self._last_pass()[0]

    @property
    def base_model(self) -> LayerView:
        """The networks; `.summary()` prints their layers."""
        return LayerView(self._module, "policy.model.base_model")

    def _forward(self, features: Features, state: State) -> tuple[Tensor, Tensor, State]:
        policy = self._policy
        if policy.is_recurrent:
            output, state = policy.unroll_one(policy.module, features, state)
        else:
            output = policy.module(features)
        return output.dist_inputs, output.values, state

    def _takes(self, given: Mapping[str, Any]) -> bool:
        """Tell whether a dict is one of features: an image of observations may be called `obs`."""
        return VECTOR in given or "obs" in self._policy.observations.preprocessor.spec.images

    def _look(self, obs: Any, state: AnyState) -> tuple[Features, State, State]:
        """Features, the memory's state before them, and the frames after them."""
        policy = self._policy
        names = policy.initial_state(1)
        vectors = self._vectors(obs)
        if vectors is not None:
            before = policy.checked_state(named_state(state, names), len(vectors))
            normalise = policy.observations.filter
            return (vectors if normalise is None else normalise(vectors)), before, {}
        rows = policy.observations.checked_rows(obs, None, None, batched=True)
        before = policy.checked_state(named_state(state, names), len(rows))
        return policy.observations.features_and_state(rows, before)

    def _vectors(self, obs: Any) -> Tensor | None:
        """Preprocessed observations; None if they are raw, or may be."""
        policy = self._policy
        spec = policy.observations.preprocessor.spec
        is_made = policy.observations.frames is not None or policy.env_to_module is not None
        if is_made or not spec.is_vector or isinstance(obs, Mapping):
            return None
        array = obs if isinstance(obs, Tensor) else np.asarray(obs)
        shape = tuple(array.shape[1:])
        if shape != (spec.num_features,) or shape == policy.observation_space.shape:
            return None
        return torch.as_tensor(array, dtype=torch.float32, device=policy.device)

    def _last_pass(self) -> tuple[Tensor, Tensor, Features]:
        if self._last is None:
            raise ConfigError("there was no forward pass yet: call model({'obs': …}) first")
        return self._last
