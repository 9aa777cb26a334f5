"""`Policy`: the one object that turns observations into actions.

Env runners, evaluation, `compute_single_action` and exported folders all use it, so that an
action in production is computed as it was in training. It needs neither Ray nor an environment.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.checkpoint import (
    CHECKPOINT_FILE,
    AnyCheckpoint,
    CheckpointError,
    check_whole,
    load_state,
    local_folder,
    only_policy_folder,
    save_state,
)
from trainables.core.distributions.base import BoundDistribution
from trainables.core.errors import ConfigError
from trainables.core.networks.modules import with_values
from trainables.core.networks.q_network import QNetwork
from trainables.core.own_folders import trust_in
from trainables.core.policy.acting_policy import PolicyOutput, check_weights
from trainables.core.policy.calls.compute_actions import ComputesActions
from trainables.core.policy.calls.model_view import ModelView, QModelView
from trainables.core.policy.policy_options import trusted_options
from trainables.core.trust import NotTrusted

_FILE = "policy"


class Policy(ComputesActions):
    """Connectors and a module that turn raw observations into actions for the environment.

    See `ActingPolicy` for its arguments and attributes.
    """

    # ------------------------------------------------------------------ the model

    @cached_property
    def model(self) -> ModelView:
        """The module with the methods of the reference's models, e.g. `model({"obs": …})`."""
        view = QModelView if isinstance(self.module, QNetwork) else ModelView
        return view(self)

    @torch.inference_mode()
    def forward(self, obs: Any) -> PolicyOutput:
        """Return what the networks say of raw observations.

        A recurrent policy begins an episode with each of them.
        """
        self.module.set_noise(None)
        rows = self.observations.checked_rows(obs, None, None, batched=True)
        features, state, _ = self.observations.features_and_state(
            rows, self.initial_state(len(rows))
        )
        return self.one_step(self.module, features, state)[0]

    def value(self, obs: Any) -> Tensor:
        """Return the state values of raw observations, `[B]`; see `forward`.

        Raises:
            ConfigError: if the policy learns none.
        """
        with_values(self.module)
        values = self.forward(obs).values
        assert values is not None
        return values

    def dist_class(self, inputs: Tensor, model: Any = None) -> BoundDistribution:
        """Return the action distribution with the given inputs, e.g. those of `forward(obs)`."""
        return BoundDistribution(self.distribution, inputs)

    # ------------------------------------------------------------------ state

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return copies of the module's weights by name."""
        return {k: v.cpu().clone().numpy() for k, v in self.module.state_dict().items()}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Set the module's weights.

        Raises:
            ConfigError: if names or shapes differ from this module's.
        """
        own = self.module.state_dict()
        check_weights(own, weights)
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(torch.as_tensor(np.array(weights[name])))

    def get_state(self) -> dict[str, Any]:
        """Return the weights, filter statistics and what exploring means."""
        state: dict[str, Any] = {
            "weights": self.get_weights(),
            "exploration": dict(self.exploration),
        }
        if self.observations.filter is not None:
            state["filter"] = self.observations.filter.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned.

        Raises:
            ConfigError: if it is of another network, or of a policy with another filter.
        """
        if (self.observations.filter is None) == ("filter" in state):
            theirs = "MeanStdFilter" if "filter" in state else "NoFilter"
            raise ConfigError(
                f"observation_filter = {self.options['observation_filter']!r} does not fit the "
                f"state, which was trained with {theirs!r}"
            )
        self.set_weights(state["weights"])
        self.set_exploration(**state.get("exploration", {}))
        if self.observations.filter is not None:
            self.observations.filter.set_state(state["filter"])

    @property
    def recipe(self) -> dict[str, Any]:
        """The arguments that a copy of this policy is made with; its state is apart."""
        return self._spaces | self.options

    @property
    def _spaces(self) -> dict[str, gym.Space]:
        return {"observation_space": self.observation_space, "action_space": self.action_space}

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write this policy to a folder that `load` serves: JSON and safetensors."""
        own = {"options": self.options, "metadata": self.metadata}
        save_state(Path(folder), _FILE, self._spaces | own | self.get_state())
        return Path(folder)

    @classmethod
    def load(
        cls,
        folder: AnyCheckpoint,
        device: torch.device | str = "cpu",
        *,
        trust: Collection[str] = (),
    ) -> Policy:
        """Load a policy from its folder or from a checkpoint's.

        Args:
            folder: A folder that `save`, `tunescape export` or a trial wrote; also Ray's
                `Checkpoint`.
            device: The device that the module computes on.
            trust: Custom models and connectors, as `module:name`, that may be imported if the
                folder names them. Without it, loading runs no code.

        Raises:
            CheckpointError: if it is missing, damaged, of an unknown format, or names
                code that is not trusted.

        Example:
            >>> policy = Policy.load("runs/quickstart/best")
            >>> action = policy.compute_single_action(obs, explore=False)
        """
        try:
            with local_folder(folder) as path:
                return cls._load(path, device, trust)
        except NotTrusted as error:
            raise error.with_traceback(None) from None

    @classmethod
    def _load(cls, path: Path, device: torch.device | str, trust: Collection[str]) -> Policy:
        is_policy, is_checkpoint = (
            os.path.lexists(path / name) for name in (f"{_FILE}.json", CHECKPOINT_FILE)
        )
        if is_checkpoint and not is_policy:
            path = only_policy_folder(path)
        check_whole(path)
        trust = trust_in(path, _FILE, trust)
        state = load_state(path, _FILE)
        what = f"policy {path}"
        try:
            policy = cls(
                state["observation_space"],
                state["action_space"],
                **trusted_options(state["options"], trust, what),
                metadata=state["metadata"],
                device=device,
                weights=state["weights"],
            )
            policy.set_state(state)
        except CheckpointError:
            raise
        except Exception as error:  # of whatever the values in a file can be
            told = str(error) if isinstance(error, ConfigError) else repr(error)
            raise CheckpointError(f"{what} is damaged: {told}") from error
        return policy
