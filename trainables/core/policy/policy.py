"""`Policy`: the one object that turns observations into actions.

Env runners, evaluation, `compute_single_action` and exported folders all use it, so that an
action in production is computed as it was in training. It needs neither Ray nor an environment.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.checkpoint import (
    CHECKPOINT_FILE,
    CheckpointError,
    check_whole,
    load_state,
    policy_folder,
    save_state,
)
from trainables.core.checkpoint_folder import AnyCheckpoint, local_folder
from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ModelConfig
from trainables.core.data.features import Features, map_tensors
from trainables.core.data.frame_stack import FRAMES
from trainables.core.distributions.build import BoundDistribution
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.errors import ConfigError
from trainables.core.networks.catalog import chosen_module
from trainables.core.networks.modules import ModuleOutput, PolicyModule
from trainables.core.networks.q_network import QNetwork
from trainables.core.networks.state import State, state_arrays
from trainables.core.policy.compute_actions import ComputesActions
from trainables.core.policy.connectors.actions import ActionConnector
from trainables.core.policy.connectors.env_to_module import EnvToModule
from trainables.core.policy.connectors.given import EnvSpaces, make_connectors
from trainables.core.policy.connectors.module_to_env import ModuleToEnv
from trainables.core.policy.explorers.catalog import make_explorer
from trainables.core.policy.explorers.explorers import SlotState
from trainables.core.policy.model_view import ModelView
from trainables.core.policy.observations import Observations
from trainables.core.policy.policy_options import trusted_options
from trainables.core.policy.q_model_view import QModelView

_FILE = "policy"


class Acted(NamedTuple):
    """What acting on a batch gives.

    Attributes:
        actions: As the distribution gave them, `[N, …]`.
        env_actions: For the environment: an array, or a tree of arrays, `[N, …]`.
        inputs: Of the distribution, `[N, num_inputs]`.
        state: The recurrent state after it, `[N, …]` by name.
    """

    actions: Tensor
    env_actions: Any
    inputs: Tensor
    state: State


class Policy(ComputesActions):
    """Connectors and a module: raw observations in, actions for the environment out.

    Args:
        observation_space: Of one environment.
        action_space: Of one environment.
        model: The `model` of the config.
        module: What it is made of: `{"type": name in core.networks.catalog, **options}`.
        observation_filter: "NoFilter" or "MeanStdFilter".
        normalize_actions: See `ActionConnector`.
        clip_actions: See `ActionConnector`.
        frame_stack: How many of the last observations are seen as one.
        action_mask_key: The key of a Dict observation that says which actions are allowed.
        env_to_module_connector: Connectors from raw observations to those that are preprocessed,
            see `make_connectors` and `EnvToModule`.
        module_to_env_connector: Connectors from actions to those that the environment is given,
            see `ModuleToEnv`.
        explore: Default of the `explore` arguments.
        exploration: What exploring is: the `exploration_config` of the config.
        seed: Of the initial weights and of exploration outside of env runners.
        device: Where the module computes.
        metadata: Where the policy comes from; kept in its folder.
        weights: Those that `set_weights` will be given, arrays by name: networks of other shapes
            are refused before they take any memory.

    Attributes:
        module: The network.
        model: The network as users of the reference know it, see `ModelView`.
        distribution: Of the actions, parametrised by the module's output.
        observations: How observations are stored, and what makes features of them.
        actions: From what the distribution gives to what an environment takes.
        env_to_module: Connectors before the preprocessor, or None.
        module_to_env: Connectors behind `actions`, or None.
        is_recurrent: Whether the module has a memory.
        has_state: Whether acting needs a state: that of a memory, or the last frames.
        options: The arguments of this policy that are neither spaces nor seed: see `recipe`.
        explorer: What `explore=True` does.
        exploration: Its present values, see `set_exploration`.
    """

    module: PolicyModule

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        model: ModelConfig | Mapping[str, Any] | None = None,
        *,
        module: dict[str, Any] | None = None,
        observation_filter: str = "NoFilter",
        normalize_actions: bool = True,
        clip_actions: bool = False,
        frame_stack: int = 1,
        action_mask_key: str = "action_mask",
        env_to_module_connector: Any = None,
        module_to_env_connector: Any = None,
        explore: bool = True,
        exploration: ExplorationConfig | Mapping[str, Any] | None = None,
        seed: int | None = None,
        device: torch.device | str = "cpu",
        metadata: dict[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
    ):
        self.observation_space, self.action_space = observation_space, action_space
        self.explore, self.device = explore, torch.device(device)
        self.metadata = dict(metadata or {})
        model_settings = ModelConfig.of(model or {})
        exploration_settings = ExplorationConfig.of(exploration or {})
        self.options: dict[str, Any] = {
            "model": model_settings.given,
            "module": dict(module or {"type": "actor_critic"}),
            "observation_filter": observation_filter,
            "normalize_actions": normalize_actions,
            "clip_actions": clip_actions,
            "frame_stack": frame_stack,
            "action_mask_key": action_mask_key,
            "env_to_module_connector": env_to_module_connector,
            "module_to_env_connector": module_to_env_connector,
            "explore": explore,
            "exploration": exploration_settings.given,
        }
        self._set_up_connectors()
        make_module, module_settings, module_options = chosen_module(
            self.options["module"], model_settings
        )
        self.distribution = make_module.distribution_of(
            self._module_action_space, module_settings, **module_options
        )
        self.actions = ActionConnector(
            self._module_action_space,
            self.distribution,
            normalize=normalize_actions,
            clip=clip_actions,
        )
        self.observations = Observations(
            observation_space,
            self.env_to_module,
            self.distribution,
            self.actions,
            model_settings,
            observation_filter=observation_filter,
            action_mask_key=action_mask_key,
            frame_stack=frame_stack,
            device=self.device,
        )
        make = partial(
            make_module,
            self.observations.preprocessor.spec,
            self.distribution,
            module_settings,
            **module_options,
        )
        # A user's own networks may compute as they are made, which takes memory.
        models = [self.options["model"], *self.options["module"].values()]
        is_custom = any(isinstance(m, dict) and m.get("custom_model") for m in models)
        if weights is not None and not is_custom:
            with torch.device("meta"):
                check_weights(make(torch.Generator()).state_dict(), weights)
        generator = torch.Generator()
        _ = generator.seed() if seed is None else generator.manual_seed(seed)
        self.module = make(generator).to(self.device)
        if self.module_to_env is not None:
            self.module_to_env.take_module(self.module)
        self.is_recurrent = self.module.is_recurrent
        self.has_state = self.is_recurrent or self.observations.frames is not None
        self.explorer = make_explorer(exploration_settings, self.distribution, self.is_recurrent)
        self.exploration: dict[str, Any] = self.explorer.initial_values()
        self._generator = torch.Generator(self.device)
        _ = self._generator.seed() if seed is None else self._generator.manual_seed(seed)

    def _set_up_connectors(self) -> None:
        """The user's connectors, and the spaces that they make."""
        spaces = EnvSpaces(self.observation_space, self.action_space)
        self._module_space, self._module_action_space = spaces
        self.env_to_module: EnvToModule | None = None
        self.module_to_env: ModuleToEnv | None = None
        name = "env_to_module_connector"
        if connectors := make_connectors(self.options[name], name, spaces):
            self.env_to_module = EnvToModule(connectors, self.observation_space)
            self._module_space = self.env_to_module.space
        name = "module_to_env_connector"
        if connectors := make_connectors(self.options[name], name, spaces):
            self.module_to_env = ModuleToEnv(connectors, self.action_space)
            self._module_action_space = self.module_to_env.space

    # ------------------------------------------------------------------ acting

    def initial_state(self, batch_size: int) -> State:
        """The state at an episode's start, `[B, …]` by name: zeros.

        That of a memory, and with frame stacking the k-1 frames before the next one.
        """
        state = self.module.initial_state(batch_size)
        if self.observations.frames is not None:
            state[FRAMES] = torch.from_numpy(
                self.observations.layout.zeros((batch_size, self.observations.num_frames - 1))
            )
        return {k: v.to(self.device) for k, v in state.items()}

    def get_initial_state(self) -> dict[str, np.ndarray]:
        """The state to begin an episode with, for `compute_single_action`."""
        return {name: part[0] for name, part in state_arrays(self.initial_state(1)).items()}

    @torch.inference_mode()
    def act(
        self,
        obs: np.ndarray,
        explore: bool,
        generator: torch.Generator | None = None,
        state: State | None = None,
        slots: SlotState | None = None,
    ) -> Acted:
        """Act on a batch: the hot path of sampling.

        Args:
            obs: Rows as `layout` stores them, `[N, *shape]`.
            explore: Sample, or take the most likely actions.
            generator: Random stream, on this policy's device.
            state: Of a policy that has one, `[N, …]` by name, zeros where an episode begins.
            slots: What the explorer keeps for these slots, see `Explorer.start`.
        """
        if self.module.is_noisy:
            self.module.set_noise(generator or self._generator if explore else None)
        features, state, frames = self.observations.look(obs, state or {})
        module = self.explorer.module(self.module, generator, slots) if explore else self.module
        if self.is_recurrent:
            output, state = self.unroll_one(module, features, state)
            inputs = output.dist_inputs
        else:
            inputs, state = module.dist_inputs(features), {}
        if explore:
            actions = self.explorer.act(inputs, generator, slots)
        else:
            actions = self.distribution.mode(inputs)
        return Acted(actions, self.for_env(actions), inputs, state | frames)

    def for_env(self, actions: Tensor) -> Any:
        """What the environment is given of stored actions `[N, …]`."""
        env_actions = self.actions(actions)
        return env_actions if self.module_to_env is None else self.module_to_env(env_actions)

    def unroll_one(
        self, module: PolicyModule, features: Features, state: State
    ) -> tuple[ModuleOutput, State]:
        """One step of a recurrent module: what it says of `[N, …]`, and the state after it."""
        sequence = map_tensors(lambda part: part.unsqueeze(0), features)
        num_rows = next(iter(state.values())).shape[0]  # not len: exported programs would fix it
        is_first = torch.zeros(1, num_rows, dtype=torch.bool, device=self.device)
        output, state = module.unroll(sequence, state, is_first)
        return ModuleOutput(output.dist_inputs[0], output.values[0]), state

    def features(self, obs: Any) -> Features:
        """What the module sees of stored observations; see `Observations.features`."""
        return self.observations.features(obs)

    def set_exploration(self, **values: Any) -> None:
        """Set what exploring means from now on; it travels with the weights.

        Args:
            values: `epsilon` of an epsilon-greedy policy; `uniform`, whether actions are drawn
                uniformly for now; `scale` of noise on actions; `stddev` of noise on parameters.
        """
        self.exploration = self.exploration | values
        self.explorer.set(values)
        if "epsilon" in values and isinstance(self.distribution, EpsilonGreedy):
            self.distribution.epsilon = float(values["epsilon"])

    @contextmanager
    def exploring(self, **values: Any) -> Iterator[None]:
        """Within it exploring means something else; see `set_exploration`."""
        before = {
            name: getattr(self.distribution if name == "epsilon" else self.explorer, name)
            for name in values
        }
        known = self.exploration
        self.set_exploration(**values)
        try:
            yield
        finally:
            self.set_exploration(**before)
            self.exploration = known

    # ------------------------------------------------------------------ the model

    @cached_property
    def model(self) -> ModelView:
        """The module with the methods of the reference's models, e.g. `model({"obs": …})`."""
        view = QModelView if isinstance(self.module, QNetwork) else ModelView
        return view(self)

    @torch.inference_mode()
    def forward(self, obs: Any) -> ModuleOutput:
        """Distribution inputs `[B, …]` and values `[B]` of raw observations, as `compute_actions`.

        A recurrent policy begins an episode with each of them.
        """
        self.module.set_noise(None)
        rows = self.observations.checked_rows(obs, None, None, batched=True)
        features, state, _ = self.observations.look(rows, self.initial_state(len(rows)))
        if self.is_recurrent:
            return self.unroll_one(self.module, features, state)[0]
        return self.module(features)

    def value(self, obs: Any) -> Tensor:
        """Values of raw observations, `[B]`; see `forward`."""
        return self.forward(obs).values

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
        check_weights(own, weights)
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(torch.as_tensor(np.array(weights[name])))

    def get_state(self) -> dict[str, Any]:
        """Weights, filter statistics and what exploring means."""
        state: dict[str, Any] = {
            "weights": self.get_weights(),
            "exploration": dict(self.exploration),
        }
        if self.observations.filter is not None:
            state["filter"] = self.observations.filter.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s.

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
        spaces = {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
        }
        return spaces | self.options

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
    def load(
        cls,
        folder: AnyCheckpoint,
        device: torch.device | str = "cpu",
        *,
        trust: Collection[str] = (),
    ) -> Policy:
        """Load a policy from its folder or from a checkpoint's.

        Args:
            folder: What `save`, `tunescape export` or a checkpoint wrote; also Ray's `Checkpoint`.
            device: Where the module computes.
            trust: Custom models and connectors, as `module:name`, that may be imported if the
                folder names them. Without it, loading runs no code.

        Raises:
            CheckpointError: if it is missing, damaged, of an unknown format, or names
                code that is not trusted.

        Example:
            >>> policy = Policy.load("runs/quickstart/best")
            >>> action = policy.compute_single_action(obs, explore=False)
        """
        with local_folder(folder) as path:
            return cls._load(path, device, trust)

    @classmethod
    def _load(cls, path: Path, device: torch.device | str, trust: Collection[str]) -> Policy:
        is_policy, is_checkpoint = (
            os.path.lexists(path / name) for name in (f"{_FILE}.json", CHECKPOINT_FILE)
        )
        if is_checkpoint and not is_policy:
            path = policy_folder(path)
        check_whole(path)
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


def check_weights(own: Mapping[str, Tensor], given: Mapping[str, Any]) -> None:
    """Check that weights are a module's.

    Args:
        own: The module's, by name.
        given: Arrays by name.

    Raises:
        ConfigError: if names or shapes differ.
    """
    if set(own) != set(given):
        raise ConfigError(f"weights {sorted(given)} do not fit the module's {sorted(own)}")
    for name, parameter in own.items():
        shape = tuple(np.shape(given[name]))
        if shape != tuple(parameter.shape):
            raise ConfigError(
                f"weight {name} has shape {shape}, the module's has {tuple(parameter.shape)}"
            )
