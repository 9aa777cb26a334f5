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
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.checkpoint import AnyCheckpoint, save_state
from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ModelConfig
from trainables.core.config.resolved import CompileOptions
from trainables.core.data.features import FRAMES, Features
from trainables.core.distributions.base import ByValue
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.networks.catalog import chosen_module, is_known
from trainables.core.networks.layers import seeded_layers
from trainables.core.networks.memory import AnyState, State, state_arrays
from trainables.core.networks.modules import (
    ActorCritic,
    PolicyModule,
    PolicyValueModule,
    unroll_row,
    with_values,
)
from trainables.core.policy.actable import Acted
from trainables.core.policy.actions import ActionConnector
from trainables.core.policy.explorers import SlotState, make_explorer
from trainables.core.policy.observations import Observations

POLICY_FILE = "policy"
"""The stem of the files that a policy is kept in."""


class Policy:
    """Connectors and a module that turn raw observations into actions for the environment.

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
        generator: The random stream of exploration outside of env runners.
        shelved: Where its tensors are if not always in memory, see `PolicyShelf`.
    """

    shelved: Any = None
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
        self.env_to_module = self.module_to_env = None
        if not (env_to_module_connector is None and module_to_env_connector is None):
            self.env_to_module, self.module_to_env = feature("connectors").pipelines(
                env_to_module_connector, module_to_env_connector, observation_space, action_space
            )
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
        self.generator = torch.Generator(self.device)
        _ = self.generator.seed() if seed is None else self.generator.manual_seed(seed)

    @property
    def module(self) -> PolicyModule:
        """The network, in memory: see `PolicyShelf`."""
        if self.shelved is not None:
            self.shelved.use()
        return self._module

    @module.setter
    def module(self, module: PolicyModule) -> None:
        self._module = module

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
            self.module.set_noise(generator or self.generator if explore else None)
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
        self._dist_inputs = feature("compiling").acting(_dist_inputs, options)

    @property
    def is_compiled(self) -> bool:
        """Whether what acts is compiled."""
        return self._dist_inputs is not _dist_inputs

    def for_env(self, actions: Tensor) -> Any:
        """Return what the environment is given of stored actions `[N, …]`."""
        env_actions = self.actions(actions)
        return env_actions if self.module_to_env is None else self.module_to_env(env_actions)

    def features(self, obs: Any) -> Features:
        """Return what the module sees of stored observations; see `Observations.features`."""
        return self.observations.features(obs)

    def policy_outputs(self, rows: np.ndarray, state: State, acted: Acted) -> dict[str, np.ndarray]:
        """Return what led to actions: `action_dist_inputs`, `action_logp`, `vf_preds`, `[B, …]`.

        A policy that learns no state values has no `vf_preds`.

        Args:
            rows: The observations that were acted on.
            state: The state before them.
            acted: The result of `act`.
        """
        outputs = {
            "action_dist_inputs": acted.inputs.cpu().numpy(),
            "action_logp": self.distribution.logp(acted.inputs, acted.actions).cpu().numpy(),
        }
        if isinstance(self.module, PolicyValueModule):
            outputs["vf_preds"] = self._values(self.module, rows, state).cpu().numpy()
        return outputs

    @torch.inference_mode()
    def _values(self, module: PolicyValueModule, rows: np.ndarray, state: State) -> Tensor:
        """Return the values `[B]` of rows with the state before them."""
        module.set_noise(None)
        features, state, _ = self.observations.features_and_state(rows, state)
        if not self.is_recurrent:
            return module.value(features)
        output, _ = unroll_row(module.unroll, features, state)
        values: Tensor = output.values[0]
        return values

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

    # ------------------------------------------------------------------ what users call

    def compute_actions(
        self,
        obs: Any = None,
        state: AnyState = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        input_dict: Mapping[str, Any] | None = None,
        full_fetch: bool = False,
        explore: bool | None = None,
        timestep: int | None = None,
        episodes: Any = None,
        unsquash_actions: bool | None = None,
        clip_actions: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute actions for a batch of observations.

        Args:
            obs: Raw observations `[B, *shape]`; of a Dict or Tuple space a tree of such arrays, or
                a list of observations.
            state: The state of a policy that has one, `[B, …]` by name, or a list in the order of
                `initial_state`; None begins an episode.
            prev_action: The action before, `[B, …]`, for policies that look at it; None at an
                episode's start. With a `module_to_env_connector` the one it was given, i.e.
                `extra["module_actions"]`.
            prev_reward: The reward of the action before, `[B]`.
            info: The environment's infos, which callers of the reference pass on: no policy here
                looks at them.
            input_dict: A batch of samples with `obs`, `state_in_0`, …, `prev_actions` and
                `prev_rewards`, instead of `obs`, `state`, `prev_action` and `prev_reward`.
            full_fetch: Whether to return the state, too, and a dict with `action_dist_inputs`,
                `action_logp` and, if state values are learned, `vf_preds`. Recurrent policies
                always do.
            explore: Whether to sample actions or to take the most likely ones; None: the default.
            timestep: The number of environment steps so far. Schedules of exploration look at it
                in `Algorithm.compute_actions`; a policy by itself has no schedule, but the values
                that it was given last.
            episodes: Episodes of the reference; like `info` they have no effect.
            unsquash_actions: Whether to stretch continuous actions from [-1, 1] to the bounds of
                the action space and clip them, or leave them in the normalised space. None: as
                `normalize_actions` of the config says.
            clip_actions: Whether to clip those that are not stretched; None: as the setting says.
            kwargs: Arguments of other versions: one warning names them.

        Returns:
            Actions for the environment, `[B, …]`; with `full_fetch`, or of a recurrent policy, the
            three.

        Raises:
            ConfigError: if observations do not fit the observation space.
        """
        return feature("calls").compute_actions(
            self,
            (obs, state, prev_action, prev_reward, unsquash_actions, clip_actions),
            (input_dict, kwargs),
            explore,
            full_fetch,
        )

    def compute_single_action(
        self,
        obs: Any = None,
        state: AnyState = None,
        *,
        prev_action: Any = None,
        prev_reward: float | None = None,
        info: Any = None,
        input_dict: Mapping[str, Any] | None = None,
        full_fetch: bool = False,
        explore: bool | None = None,
        timestep: int | None = None,
        episode: Any = None,
        unsquash_action: bool | None = None,
        clip_action: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the action for one observation, without a batch axis; see `compute_actions`."""
        return feature("calls").compute_single_action(
            self,
            (obs, state, prev_action, prev_reward, unsquash_action, clip_action),
            (input_dict, kwargs),
            explore,
            full_fetch,
        )

    @cached_property
    def model(self) -> Any:
        """The module with the methods of the reference's models, e.g. `model({"obs": …})`."""
        return feature("calls").model_view(self)

    def forward(self, obs: Any) -> Any:
        """Return what the networks say of raw observations: `dist_inputs` and `values`.

        A recurrent policy begins an episode with each of them. A policy that learns no state
        values, as of DQN and SAC, has None in their place.
        """
        return feature("calls").forward(self, obs)

    def value(self, obs: Any) -> Tensor:
        """Return the state values of raw observations, `[B]`; see `forward`.

        Raises:
            ConfigError: if the policy learns none.
        """
        with_values(self.module)
        values: Tensor = self.forward(obs).values
        return values

    def dist_class(self, inputs: Tensor, model: Any = None) -> Any:
        """Return the action distribution with the given inputs, e.g. those of `forward(obs)`."""
        return feature("calls").bound_distribution(self.distribution, inputs)

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
        save_state(Path(folder), POLICY_FILE, self._spaces | own | self.get_state())
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
        policy: Policy = feature("calls").load(cls, folder, device, trust)
        return policy


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
