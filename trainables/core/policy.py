"""`Policy`: the one object that turns observations into actions.

Env runners, evaluation, `compute_single_action` and exported folders all use it, so that an
action in production is computed as it was in training. It needs neither Ray nor an environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.catalog import module_class
from trainables.core.checkpoint import (
    CHECKPOINT_FILE,
    CheckpointError,
    load_state,
    policy_folder,
    save_state,
)
from trainables.core.connectors import ActionConnector, MeanStdFilter, Preprocessor
from trainables.core.distributions import BoundDistribution
from trainables.core.exploration import EpsilonGreedy
from trainables.core.modules import ModuleOutput, PolicyModule
from trainables.core.settings import ConfigError

_FILE = "policy"


class Policy:
    """Connectors and a module: raw observations in, actions for the environment out.

    Args:
        observation_space: Of one environment.
        action_space: Of one environment.
        model: The `model` dict of the config.
        module: What it is made of: `{"type": name in core.catalog, **options}`.
        observation_filter: "NoFilter" or "MeanStdFilter".
        normalize_actions: See `ActionConnector`.
        clip_actions: See `ActionConnector`.
        explore: Default of the `explore` arguments.
        seed: Of the initial weights and of exploration outside of env runners.
        device: Where the module computes.
        metadata: Where the policy comes from; kept in its folder.

    Attributes:
        module: The network; `model` is another name of it.
        distribution: Of the actions, parametrised by the module's output.
        options: The arguments that a copy of this policy is made with.
        filter: Running mean and standard deviation of the features, or None.
        exploration: What `explore=True` means at present, see `set_exploration`.
    """

    module: PolicyModule

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        model: dict[str, Any] | None = None,
        *,
        module: dict[str, Any] | None = None,
        observation_filter: str = "NoFilter",
        normalize_actions: bool = True,
        clip_actions: bool = False,
        explore: bool = True,
        seed: int | None = None,
        device: torch.device | str = "cpu",
        metadata: dict[str, Any] | None = None,
    ):
        self.observation_space, self.action_space = observation_space, action_space
        self.explore, self.device = explore, torch.device(device)
        self.metadata = dict(metadata or {})
        self.options: dict[str, Any] = {
            "model": dict(model or {}),
            "module": dict(module or {"type": "actor_critic"}),
            "observation_filter": observation_filter,
            "normalize_actions": normalize_actions,
            "clip_actions": clip_actions,
            "explore": explore,
        }
        module_options = dict(self.options["module"])
        make_module = module_class(module_options.pop("type"))
        self.distribution = make_module.distribution_of(
            action_space, self.options["model"], **module_options
        )
        self.preprocessor = Preprocessor(observation_space)
        has_filter = observation_filter == "MeanStdFilter"
        self.filter = MeanStdFilter(self.preprocessor.num_features) if has_filter else None
        self.actions = ActionConnector(
            action_space, self.distribution, normalize=normalize_actions, clip=clip_actions
        )
        generator = torch.Generator()
        _ = generator.seed() if seed is None else generator.manual_seed(seed)
        self.module = make_module(
            self.preprocessor.num_features,
            self.distribution,
            self.options["model"],
            generator,
            **module_options,
        ).to(self.device)
        self.exploration: dict[str, Any] = {}
        self._generator = torch.Generator(self.device)
        _ = self._generator.seed() if seed is None else self._generator.manual_seed(seed)

    # ------------------------------------------------------------------ acting

    def features(self, obs: Any) -> Tensor:
        """What the module sees of raw observations `[..., *shape]`: `[..., num_features]`."""
        tensor = obs if isinstance(obs, Tensor) else torch.from_numpy(np.asarray(obs))
        features = self.preprocessor(tensor.to(self.device))
        return features if self.filter is None else self.filter(features)

    @torch.inference_mode()
    def act(
        self, obs: np.ndarray, explore: bool, generator: torch.Generator | None = None
    ) -> tuple[Tensor, np.ndarray, Tensor]:
        """Act on a batch: the hot path of sampling.

        Args:
            obs: Raw observations, `[N, *shape]`.
            explore: Sample, or take the most likely actions.
            generator: Random stream, on this policy's device.

        Returns:
            Actions as the distribution gave them `[N, …]`, actions for the environment `[N, …]`,
            and the inputs of the distribution `[N, num_inputs]`.
        """
        if self.module.is_noisy:
            self.module.set_noise(generator or self._generator if explore else None)
        inputs = self.module.dist_inputs(self.features(obs))
        if not explore:
            actions = self.distribution.mode(inputs)
        elif self.exploration.get("uniform"):
            actions = self.distribution.uniform(inputs, generator)
        else:
            actions = self.distribution.sample(inputs, generator)
        return actions, self.actions(actions), inputs

    def set_exploration(self, **values: Any) -> None:
        """Set what exploring means from now on; it travels with the weights.

        Args:
            values: `epsilon` of an epsilon-greedy policy; `uniform`, whether actions are drawn
                uniformly for now.
        """
        self.exploration |= values
        if "epsilon" in values and isinstance(self.distribution, EpsilonGreedy):
            self.distribution.epsilon = float(values["epsilon"])

    def compute_actions(
        self,
        obs: Any,
        state: None = None,
        *,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """Actions for a batch of observations.

        Args:
            obs: Raw observations, `[B, *shape]`.
            state: Recurrent state; there are no recurrent policies yet, so it must be None.
            explore: Sample (True) or take the most likely actions (False); None: the default.
            full_fetch: Also return the state and a dict with `action_dist_inputs`,
                `action_logp` and `vf_preds`.

        Returns:
            Actions for the environment, `[B, …]`; with `full_fetch` the three.

        Raises:
            ConfigError: if observations do not fit the observation space.
        """
        if state is not None:
            raise ConfigError("state is not supported yet: this policy is not recurrent")
        array = self._checked(obs)
        explore = self.explore if explore is None else explore
        actions, env_actions, inputs = self.act(array, explore, self._generator)
        if not full_fetch:
            return env_actions
        extra = {
            "action_dist_inputs": inputs.cpu().numpy(),
            "action_logp": self.distribution.logp(inputs, actions).cpu().numpy(),
            "vf_preds": self.value(array).cpu().numpy(),
        }
        return env_actions, [], extra

    def compute_single_action(
        self,
        obs: Any,
        state: None = None,
        *,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """The action for one observation; see `compute_actions`."""
        batch = np.asarray(obs)[None]
        result = self.compute_actions(batch, state, explore=explore, full_fetch=full_fetch)
        if not full_fetch:
            return result[0]
        actions, state_out, extra = result
        return actions[0], state_out, {name: value[0] for name, value in extra.items()}

    def _checked(self, obs: Any) -> np.ndarray:
        array = np.asarray(obs)
        shape = self.observation_space.shape or ()
        if array.ndim == 0 or array.shape[1:] != shape:
            raise ConfigError(
                f"observations have shape {array.shape[1:]}, the observation space has {shape}"
            )
        if array.dtype.kind not in "biuf":
            raise ConfigError(f"observations are {array.dtype}, not numbers: {obs!r}")
        return array if array.flags.writeable else array.copy()  # torch warns of read-only ones

    # ------------------------------------------------------------------ the model

    @property
    def model(self) -> PolicyModule:
        """The module."""
        return self.module

    @torch.inference_mode()
    def forward(self, obs: Any) -> ModuleOutput:
        """Distribution inputs `[B, …]` and values `[B]` of raw observations `[B, *shape]`."""
        self.module.set_noise(None)
        return self.module(self.features(obs))

    @torch.inference_mode()
    def value(self, obs: Any) -> Tensor:
        """Values of raw observations `[..., *shape]`, `[...]`."""
        self.module.set_noise(None)
        return self.module.value(self.features(obs))

    def dist_class(self, inputs: Tensor, model: Any = None) -> BoundDistribution:
        """The action distribution with the given inputs, e.g. those of `forward(obs)`."""
        return BoundDistribution(self.distribution, inputs)

    # ------------------------------------------------------------------ state

    def get_weights(self) -> dict[str, np.ndarray]:
        """Copies of the module's weights by name."""
        return {k: v.cpu().numpy().copy() for k, v in self.module.state_dict().items()}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Set the module's weights.

        Raises:
            ConfigError: if names or shapes differ from this module's.
        """
        own = self.module.state_dict()
        if set(own) != set(weights):
            raise ConfigError(f"weights {sorted(weights)} do not fit the module's {sorted(own)}")
        with torch.no_grad():
            for name, parameter in own.items():
                value = torch.as_tensor(np.array(weights[name]))
                if value.shape != parameter.shape:
                    raise ConfigError(
                        f"weight {name} has shape {tuple(value.shape)}, the module's has "
                        f"{tuple(parameter.shape)}"
                    )
                parameter.copy_(value)

    def get_state(self) -> dict[str, Any]:
        """Weights, filter statistics and what exploring means."""
        state: dict[str, Any] = {
            "weights": self.get_weights(),
            "exploration": dict(self.exploration),
        }
        if self.filter is not None:
            state["filter"] = self.filter.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: if it is of another network, or of a policy with another filter.
        """
        if (self.filter is None) == ("filter" in state):
            theirs = "MeanStdFilter" if "filter" in state else "NoFilter"
            raise ConfigError(
                f"observation_filter = {self.options['observation_filter']!r} does not fit the "
                f"state, which was trained with {theirs!r}"
            )
        self.set_weights(state["weights"])
        self.set_exploration(**state.get("exploration", {}))
        if self.filter is not None:
            self.filter.set_state(state["filter"])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write this policy to a folder that `load` serves: JSON and safetensors."""
        state = {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "options": self.options,
            "metadata": self.metadata,
            **self.get_state(),
        }
        save_state(Path(folder), _FILE, state)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: torch.device | str = "cpu") -> Policy:
        """Load a policy from its folder or from a checkpoint's.

        Args:
            folder: What `save`, `tunescape export` or a checkpoint wrote.
            device: Where the module computes.

        Raises:
            CheckpointError: if it is missing, damaged or of an unknown format.

        Example:
            >>> policy = Policy.load("runs/quickstart/best")
            >>> action = policy.compute_single_action(obs, explore=False)
        """
        path = Path(folder)
        if not (path / f"{_FILE}.json").is_file() and (path / CHECKPOINT_FILE).is_file():
            path = policy_folder(path)
        state = load_state(path, _FILE)
        try:
            policy = cls(
                state["observation_space"],
                state["action_space"],
                **state["options"],
                metadata=state["metadata"],
                device=device,
            )
            policy.set_state(state)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"policy {path} is damaged: {error!r}") from None
        return policy
