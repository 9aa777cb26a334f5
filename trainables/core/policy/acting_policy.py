"""`ActingPolicy`: connectors and a module that turn stored observations into actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.compiled import compiled
from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ModelConfig
from trainables.core.config.resolved import CompileOptions
from trainables.core.data.features import Features
from trainables.core.data.frame_stack import FRAMES
from trainables.core.distributions.epsilon_greedy import ByValue
from trainables.core.errors import ConfigError
from trainables.core.networks.catalog import chosen_module, is_known
from trainables.core.networks.layers import seeded_layers
from trainables.core.networks.memory import State, state_arrays
from trainables.core.networks.modules import (
    ActorCritic,
    PolicyModule,
    PolicyValueModule,
    unroll_row,
)
from trainables.core.policy.actions import ActionConnector
from trainables.core.policy.connectors.given import Connector, EnvSpaces, make_connectors
from trainables.core.policy.connectors.pipelines import EnvToModule, ModuleToEnv
from trainables.core.policy.explorers import SlotState, make_explorer
from trainables.core.policy.observations import Observations
from trainables.core.policy.shelf import Shelved

_CONNECTORS = ("env_to_module_connector", "module_to_env_connector")


class Acted(NamedTuple):
    """The actions of a batch of observations.

    Attributes:
        actions: Actions as the distribution gave them, `[N, …]`.
        env_actions: Actions for the environment: an array, or a tree of arrays, `[N, …]`.
        inputs: Inputs of the distribution, `[N, num_inputs]`.
        state: The state after them, `[N, …]` by name; {} if the policy has none.
    """

    actions: Tensor
    env_actions: Any
    inputs: Tensor
    state: State


class PolicyOutput(NamedTuple):
    """What the networks of a policy say of observations.

    Attributes:
        dist_inputs: Inputs of the action distribution, `[B, num_inputs]`.
        values: State values, `[B]`; None of a policy that learns none, as of DQN and SAC.
    """

    dist_inputs: Tensor
    values: Tensor | None


class ActingPolicy:
    """The part of `Policy` that holds its parts and acts on rows of observations.

    Args:
        observation_space: The space of one environment's observations.
        action_space: The space of one environment's actions.
        model: The `model` of the config.
        module: The networks: `{"type": name in core.networks.catalog, **options}`.
        observation_filter: "NoFilter" or "MeanStdFilter".
        normalize_actions: Whether [-1, 1] is stretched to the bounds; see `ActionConnector`.
        clip_actions: Whether actions are clipped to the bounds; see `ActionConnector`.
        frame_stack: The number of last observations that are seen as one.
        action_mask_key: The key of a Dict observation that says which actions are allowed.
        critic_obs_key: The key of a Dict observation that only the value function sees, or None.
            Whoever acts may leave it out.
        env_to_module_connector: Connectors from raw observations to those that are preprocessed,
            see `make_connectors` and `EnvToModule`.
        module_to_env_connector: Connectors from actions to those that the environment is given,
            see `ModuleToEnv`.
        explore: Default of the `explore` arguments.
        exploration: The `exploration_config` of the config.
        seed: Seed of the initial weights, and of exploration outside of env runners.
        device: The device that the module computes on.
        metadata: Facts about the policy's origin; kept in its folder.
        weights: Arrays by name that `set_weights` will be given: networks of other shapes are
            refused before they take any memory.

    Attributes:
        model: The network as users of the reference know it, see `ModelView`.
        distribution: The distribution of actions, parametrised by the module's output.
        observations: The way from raw observations to features.
        actions: The way from the distribution's actions to those an environment takes.
        env_to_module: Connectors before the preprocessor, or None.
        module_to_env: Connectors behind `actions`, or None.
        is_recurrent: Whether the module has a memory.
        has_state: Whether acting needs a state: that of a memory, or the last frames.
        options: The arguments of this policy that are neither spaces nor seed: see `recipe`.
        explorer: Draws actions where `explore` is True.
        exploration: The present values of exploration, see `set_exploration`.
        shelved: Where its tensors are if not always in memory, see `PolicyShelf`.
    """

    shelved: Shelved | None = None
    _module: PolicyModule

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
        critic_obs_key: str | None = None,
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
            "critic_obs_key": critic_obs_key,
            "env_to_module_connector": env_to_module_connector,
            "module_to_env_connector": module_to_env_connector,
            "explore": explore,
            "exploration": exploration_settings.given,
        }
        before, behind = (self._connectors(name) for name in _CONNECTORS)
        self.env_to_module = EnvToModule(before, observation_space) if before else None
        self.module_to_env = ModuleToEnv(behind, action_space) if behind else None
        space = action_space if self.module_to_env is None else self.module_to_env.space
        make_module, module_settings, module_options = chosen_module(
            self.options["module"], model_settings
        )
        if critic_obs_key is not None and not issubclass(make_module, ActorCritic):
            raise ConfigError(
                f"critic_obs_key = {critic_obs_key!r} has no effect on {make_module.__name__}, "
                "whose value function sees what acts sees"
            )
        self.distribution = make_module.distribution_of(space, module_settings, **module_options)
        self.actions = ActionConnector(
            space, self.distribution, normalize=normalize_actions, clip=clip_actions
        )
        self.observations = Observations(
            observation_space,
            self.env_to_module,
            self.distribution,
            self.actions,
            model_settings,
            observation_filter=observation_filter,
            action_mask_key=action_mask_key,
            critic_obs_key=critic_obs_key,
            frame_stack=frame_stack,
            device=self.device,
        )
        spec = self.observations.preprocessor.spec
        make = partial(make_module, spec, self.distribution, module_settings, **module_options)
        # A user's own networks may compute as they are made, which takes memory.
        models = [self.options["model"], *self.options["module"].values()]
        is_custom = any(isinstance(m, dict) and m.get("custom_model") for m in models)
        if weights is not None and not is_custom:
            with torch.device("meta"):
                check_weights(make(torch.Generator()).state_dict(), weights)
        generator = torch.Generator()
        _ = generator.seed() if seed is None else generator.manual_seed(seed)
        if is_known(make_module):
            self.module = make(generator).to(self.device)
        else:
            # A copy of the generator: the layers of the catalogue's class are as they are in it.
            with seeded_layers(torch.Generator().set_state(generator.get_state())):
                self.module = make(generator).to(self.device)
        if self.module_to_env is not None:
            self.module_to_env.take_module(self.module)
        self.is_recurrent = self.module.is_recurrent
        self.has_state = self.is_recurrent or self.observations.frames is not None
        self.explorer = make_explorer(exploration_settings, self.distribution, self.is_recurrent)
        self.exploration: dict[str, Any] = self.explorer.initial_values()
        self._dist_inputs = _dist_inputs
        self._generator = torch.Generator(self.device)
        _ = self._generator.seed() if seed is None else self._generator.manual_seed(seed)

    @property
    def module(self) -> PolicyModule:
        """The network, in memory: see `PolicyShelf`."""
        if self.shelved is not None:
            self.shelved.use()
        return self._module

    @module.setter
    def module(self, module: PolicyModule) -> None:
        self._module = module

    def _connectors(self, name: str) -> list[Connector]:
        spaces = EnvSpaces(self.observation_space, self.action_space)
        return make_connectors(self.options[name], name, spaces)

    # ------------------------------------------------------------------ acting

    def initial_state(self, batch_size: int) -> State:
        """Return the state at an episode's start, `[B, …]` by name: zeros.

        That of a memory, and with frame stacking the k-1 frames before the next one.
        """
        state = self.module.initial_state(batch_size)
        if self.observations.frames is not None:
            state[FRAMES] = torch.from_numpy(
                self.observations.layout.zeros((batch_size, self.observations.num_frames - 1))
            )
        return {k: v.to(self.device) for k, v in state.items()}

    def get_initial_state(self) -> dict[str, np.ndarray]:
        """Return the state to begin an episode with, for `compute_single_action`."""
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
            explore: Whether to sample actions or to take the most likely ones.
            generator: Random stream, on this policy's device.
            state: The state if the policy has one, `[N, …]` by name; zeros begin an episode.
            slots: The explorer's memory of these slots, see `Explorer.start`.
        """
        if self.module.is_noisy:
            self.module.set_noise(generator or self._generator if explore else None)
        features, state, frames = self.observations.features_and_state(obs, state or {})
        module = self.explorer.module(self.module, generator, slots) if explore else self.module
        if self.is_recurrent:
            rows, state = unroll_row(module.unroll_inputs, features, state)
            inputs = rows[0]
        else:
            inputs, state = self._dist_inputs(module, features), {}
        if explore:
            actions = self.explorer.act(inputs, generator, slots)
        else:
            actions = self.distribution.mode(inputs)
        return Acted(actions, self.for_env(actions), inputs, state | frames)

    def compile_acting(self, options: CompileOptions) -> None:
        """Compile what acts, if it has no memory, when it acts first: `torch_compile_worker`.

        Args:
            options: Backend and mode.

        Raises:
            ConfigError: if PyTorch does not know the backend.
        """
        # See `CompiledLosses`: trials that a process has run before leave no room.
        torch.compiler.reset()
        self._dist_inputs = compiled(_dist_inputs, options, "torch_compile_worker")

    @property
    def is_compiled(self) -> bool:
        """Whether what acts is compiled."""
        return self._dist_inputs is not _dist_inputs

    def for_env(self, actions: Tensor) -> Any:
        """Return what the environment is given of stored actions `[N, …]`."""
        env_actions = self.actions(actions)
        return env_actions if self.module_to_env is None else self.module_to_env(env_actions)

    def one_step(
        self, module: PolicyModule, features: Features, state: State
    ) -> tuple[PolicyOutput, State]:
        """Return what a module says of features `[N, …]`, and its state after them.

        Args:
            module: The policy's module, or a copy of it.
            features: The features of N slots at one step.
            state: The memory's state before the step, `[N, …]` by name; {} without a memory.
        """
        if not isinstance(module, PolicyValueModule):
            if not self.is_recurrent:
                return PolicyOutput(module.dist_inputs(features), None), {}
            inputs, state = unroll_row(module.unroll_inputs, features, state)
            return PolicyOutput(inputs[0], None), state
        if not self.is_recurrent:
            return PolicyOutput(*module(features)), {}
        output, state = unroll_row(module.unroll, features, state)
        return PolicyOutput(output.dist_inputs[0], output.values[0]), state

    def features(self, obs: Any) -> Features:
        """Return what the module sees of stored observations; see `Observations.features`."""
        return self.observations.features(obs)

    def set_exploration(self, **values: Any) -> None:
        """Set what exploring means from now on; it travels with the weights.

        Args:
            values: `epsilon` of an epsilon-greedy policy; `uniform`, whether actions are drawn
                uniformly for now; `scale` of noise on actions; `stddev` of noise on parameters.
        """
        self.exploration = self.exploration | values
        self.explorer.set(values)
        if "epsilon" in values and isinstance(self.distribution, ByValue):
            self.distribution.epsilon = float(values["epsilon"])

    @contextmanager
    def exploring(self, **values: Any) -> Iterator[None]:
        """Set what exploring means for a while; see `set_exploration`."""
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


def _dist_inputs(module: PolicyModule, features: Features) -> Tensor:
    """Return what acts says of features `[N, …]`; a function, so that it can be compiled."""
    return module.dist_inputs(features)


def check_weights(own: Mapping[str, Tensor], given: Mapping[str, Any]) -> None:
    """Check that weights are a module's.

    Args:
        own: The module's weights by name.
        given: The arrays to become its weights, by name.

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
