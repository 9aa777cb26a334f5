"""`Policy.model` of DQN: action values and state values from what its heads are given."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from trainables.core.data.features import Features, action_mask_of, map_tensors
from trainables.core.errors import ConfigError
from trainables.core.networks.q_network import QNetwork
from trainables.core.networks.state import State
from trainables.core.networks.trunk import Trunk
from trainables.core.policy.layer_summary import LayerView
from trainables.core.policy.model_view import ModelView


class QValueDistributions(NamedTuple):
    """What `get_q_value_distributions` gives.

    Attributes:
        q_values: Q(s, a), `[B, A]`.
        logits: Of each return's distribution over the atoms, `[B, A, K]`; Q itself if there is one.
        probabilities: Their softmax, `[B, A, K]`.
    """

    q_values: Tensor
    logits: Tensor
    probabilities: Tensor


class QModelView(ModelView):
    """The networks of DQN. `model({"obs": …})` gives what the heads are given, `[B, width]`."""

    _module: QNetwork

    def get_q_value_distributions(self, model_out: Any) -> QValueDistributions:
        """Action values, with both heads if there are two.

        Args:
            model_out: What `model({"obs": …})` gave, or the first part of it.

        Raises:
            ConfigError: if actions are masked, and it is not of the last forward pass.
        """
        hidden = _hidden(model_out)
        logits = self._module.logits_of(hidden, self._features_of(hidden))
        return QValueDistributions(self._module.expected(logits), logits, logits.softmax(-1))

    def get_state_value(self, model_out: Any) -> Tensor:
        """Return what the state-value head gives, `[B, K]` with K atoms, `[B, 1]` without.

        Args:
            model_out: See `get_q_value_distributions`.
        """
        value: Tensor = self.state_value_head(_hidden(model_out))
        return value

    @property
    def q_value_head(self) -> LayerView:
        """The head of advantages, or of action values if it is the only one."""
        return LayerView(self._module.advantage, "policy.model.q_value_head")

    @property
    def state_value_head(self) -> LayerView:
        """The head of state values.

        Raises:
            ConfigError: if there is none.
        """
        head = self._module.state_value
        if head is None:
            raise ConfigError("there is no state-value head: it needs dueling=True")
        return LayerView(head, "policy.model.state_value_head")

    def _forward(self, features: Features, state: State) -> tuple[Tensor, Tensor, State]:
        module = self._module
        if module.is_recurrent:
            encoder = cast(Trunk, module.encoder)
            sequence = map_tensors(lambda part: part.unsqueeze(0), features)
            num_rows = len(next(iter(state.values())))
            is_first = torch.zeros(1, num_rows, dtype=torch.bool, device=self._policy.device)
            hidden, state = encoder.unroll(sequence, state, is_first)
            hidden = hidden[0]
        else:
            hidden = module.encoder(features)
        q_values = module.expected(module.logits_of(hidden, features))
        return hidden, q_values.amax(-1), state

    def _features_of(self, hidden: Tensor) -> Features:
        """Those that the heads' input was made of, which have the action mask."""
        last, _, features = self._last_pass()
        if action_mask_of(features) is not None and hidden is not last:
            raise ConfigError(
                "actions are masked: model_out must be that of the last model({'obs': …})"
            )
        return features


def _hidden(model_out: Any) -> Tensor:
    hidden: Tensor = model_out[0] if isinstance(model_out, (tuple, list)) else model_out
    return hidden
