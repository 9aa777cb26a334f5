"""`Policy.model`: a policy's networks with the methods that users of the reference know.

Training never goes through it: it calls the networks themselves, `Policy.module`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.data.features import VECTOR, Features, action_mask_of
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import AnyState, State
from trainables.core.networks.modules import (
    PolicyModule,
    PolicyValueModule,
    unroll_row,
    with_values,
)
from trainables.core.networks.q_network import QNetwork
from trainables.core.policy.calls.action_arguments import like_given, named_state
from trainables.core.policy.calls.compute_actions import checked_rows, checked_state
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
    "get_q_values": "is policy.module.q_values, with policy.features(rows) and actions here",
    "get_action_model_outputs": "is policy.forward(obs).dist_inputs here",
    "custom_loss": "is a learner_class of yours here",
    "import_from_h5": "is policy.set_weights(weights) here",
}
_COLUMNS = ("Layer (type)", "Weights", "Param #")


class PolicyOutput(NamedTuple):
    """What the networks of a policy say of observations.

    Attributes:
        dist_inputs: Inputs of the action distribution, `[B, num_inputs]`.
        values: State values, `[B]`; None of a policy that learns none, as of DQN and SAC.
    """

    dist_inputs: Tensor
    values: Tensor | None


class LayerView:
    """A network with `summary()` and `variables()`; all else is the network's own.

    Args:
        module: The network.
        name: The network's name in errors and in the table.
        instead: Advice for names that it does not have.
    """

    def __init__(self, module: nn.Module, name: str, instead: Mapping[str, str] | None = None):
        self._module, self._name, self._instead = module, name, instead or {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._module(*arguments, **keywords)

    def summary(self) -> None:
        """Print the table of its layers."""
        print(summary_of(self._module, self._name))

    def variables(self, as_dict: bool = False) -> list[Tensor] | dict[str, Tensor]:
        """Return all parameters, in order or by name."""
        named: dict[str, Tensor] = dict(self._module.named_parameters())
        return named if as_dict else list(named.values())

    def trainable_variables(self, as_dict: bool = False) -> list[Tensor] | dict[str, Tensor]:
        """Return the parameters that learn, in order or by name."""
        named: dict[str, Tensor] = {
            n: p for n, p in self._module.named_parameters() if p.requires_grad
        }
        return named if as_dict else list(named.values())

    def __repr__(self) -> str:
        return repr(self._module)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._module, name, value)

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Return the network's attribute; an error says what to call instead."""
            if name.startswith("_"):  # also while it is copied
                raise AttributeError(name)
            try:
                return getattr(self._module, name)
            except AttributeError:
                said = self._instead.get(name, "does not exist; policy.module is the network")
                raise AttributeError(f"{self._name}.{name} {said}") from None


class ModelView(LayerView):
    """The networks of a policy, called with features or as the reference's models are.

    What it has no name for is looked up in the networks: `parameters()`, `state_dict()`, layers.

    Args:
        policy: The policy with the networks.
    """

    def __init__(self, policy: Policy):
        super().__init__(policy.module, "policy.model", _INSTEAD)
        self._policy = policy
        self._last: tuple[Tensor, Tensor | None, Features] | None = None

    def __call__(self, given: Any, state: AnyState = None, seq_lens: Any = None) -> Any:
        """Run the networks forward, with gradients.

        Args:
            given: Features, for the networks' own output. Or `{"obs": …}`, as in the reference:
                observations `[B, …]`, raw or as `get_preprocessor` transforms them, which the
                observation filter is applied to.
            state: The memory's state or stacked frames, with `{"obs": …}`; None begins an episode.
            seq_lens: Ones, with `{"obs": …}`: each row is a step.

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
        """Return state values `[B]` of the last `model({"obs": …})`.

        Raises:
            ConfigError: if there was none, or the policy learns none.
        """
        with_values(self._module)
        values = self._last_pass()[1]
        assert values is not None
        return values

    def last_output(self) -> Tensor:
        """Return the first part of what the last `model({"obs": …})` gave."""
        return self._last_pass()[0]

    @property
    def base_model(self) -> LayerView:
        """The networks; `.summary()` prints their layers."""
        return LayerView(self._module, "policy.model.base_model")

    def _forward(self, features: Features, state: State) -> tuple[Tensor, Tensor | None, State]:
        output, state = one_step(self._policy, self._policy.module, features, state)
        return output.dist_inputs, output.values, state

    def _takes(self, given: Mapping[str, Any]) -> bool:
        """Return whether a dict holds features: an image may be called `obs`."""
        return VECTOR in given or "obs" in self._policy.observations.preprocessor.spec.images

    def _look(self, obs: Any, state: AnyState) -> tuple[Features, State, State]:
        """Return features, the memory's state before them, and the frames after them."""
        policy = self._policy
        names = policy.initial_state(1)
        vectors = self._vectors(obs)
        if vectors is not None:
            before = checked_state(policy, named_state(state, names), len(vectors))
            normalise = policy.observations.filter
            return (vectors if normalise is None else normalise(vectors)), before, {}
        rows = checked_rows(policy, obs, batched=True)
        before = checked_state(policy, named_state(state, names), len(rows))
        return policy.observations.features_and_state(rows, before)

    def _vectors(self, obs: Any) -> Tensor | None:
        """Return preprocessed observations; None if they are raw, or may be."""
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

    def _last_pass(self) -> tuple[Tensor, Tensor | None, Features]:
        if self._last is None:
            raise ConfigError("there was no forward pass yet: call model({'obs': …}) first")
        return self._last


class QValueDistributions(NamedTuple):
    """Action values, and the distributions that they are means of.

    Attributes:
        q_values: Action values Q(s, a), `[B, A]`.
        logits: Logits of each return's distribution over K atoms, `[B, A, K]`; Q of one atom.
        probabilities: Softmax of the logits, `[B, A, K]`.
    """

    q_values: Tensor
    logits: Tensor
    probabilities: Tensor


class QModelView(ModelView):
    """The networks of DQN. `model({"obs": …})` gives what the heads are given, `[B, width]`."""

    _module: QNetwork

    def get_q_value_distributions(self, model_out: Any) -> QValueDistributions:
        """Return action values, made by both heads if there are two.

        Args:
            model_out: The result of `model({"obs": …})`, or the first part of it.

        Raises:
            ConfigError: if actions are masked, and it is not of the last forward pass.
        """
        hidden = _hidden(model_out)
        logits = self._module.logits_of(hidden, self._features_of(hidden))
        return QValueDistributions(self._module.expected(logits), logits, logits.softmax(-1))

    def get_state_value(self, model_out: Any) -> Tensor:
        """Return what the state-value head gives, `[B, K]` with K atoms, `[B, 1]` without.

        Args:
            model_out: The result of `model({"obs": …})`, or the first part of it.
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

    def _forward(self, features: Features, state: State) -> tuple[Tensor, Tensor | None, State]:
        module = self._module
        if module.is_recurrent:
            encoder: Any = module.encoder  # a `Trunk`
            rows, state = unroll_row(encoder.unroll, features, state)
            hidden = rows[0]
        else:
            hidden = module.encoder(features)
        return hidden, None, state

    def _features_of(self, hidden: Tensor) -> Features:
        """Return the features that the heads' input was made of, which have the action mask."""
        last, _, features = self._last_pass()
        if action_mask_of(features) is not None and hidden is not last:
            raise ConfigError(
                "actions are masked: model_out must be that of the last model({'obs': …})"
            )
        return features


def model_view(policy: Policy) -> ModelView:
    """Return the networks of a policy with the methods of the reference's models."""
    return QModelView(policy) if isinstance(policy.module, QNetwork) else ModelView(policy)


@torch.inference_mode()
def forward(policy: Policy, obs: Any) -> PolicyOutput:
    """Return what the networks of a policy say of raw observations; see `Policy.forward`."""
    policy.module.set_noise(None)
    rows = checked_rows(policy, obs, batched=True)
    features, state, _ = policy.observations.features_and_state(
        rows, policy.initial_state(len(rows))
    )
    return one_step(policy, policy.module, features, state)[0]


def one_step(
    policy: Policy, module: PolicyModule, features: Features, state: State
) -> tuple[PolicyOutput, State]:
    """Return what a module says of features `[N, …]`, and its state after them.

    Args:
        policy: The policy.
        module: The policy's module, or a copy of it.
        features: The features of N slots at one step.
        state: The memory's state before the step, `[N, …]` by name; {} without a memory.
    """
    if not isinstance(module, PolicyValueModule):
        if not policy.is_recurrent:
            return PolicyOutput(module.dist_inputs(features), None), {}
        inputs, state = unroll_row(module.unroll_inputs, features, state)
        return PolicyOutput(inputs[0], None), state
    if not policy.is_recurrent:
        return PolicyOutput(*module(features)), {}
    output, state = unroll_row(module.unroll, features, state)
    return PolicyOutput(output.dist_inputs[0], output.values[0]), state


def summary_of(module: nn.Module, name: str) -> str:
    """Return the table of a network's layers that have parameters, and how many these are.

    Args:
        module: The network.
        name: The network's name in the table.
    """
    rows = [_COLUMNS]
    for path, layer in module.named_modules():
        own = list(layer.parameters(recurse=False))
        if own:
            shapes = ", ".join(str(tuple(parameter.shape)) for parameter in own)
            count = sum(parameter.numel() for parameter in own)
            rows.append((f"{path} ({type(layer).__name__})".strip(), shapes, f"{count:,}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    total = sum(parameter.numel() for parameter in module.parameters())
    trainable = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return "\n".join(
        [
            f'Model: "{name}"',
            *lines,
            f"Total params: {total:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {total - trainable:,}",
        ]
    )


def _hidden(model_out: Any) -> Tensor:
    hidden: Tensor = model_out[0] if isinstance(model_out, (tuple, list)) else model_out
    return hidden
