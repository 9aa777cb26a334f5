"""The way of raw observations through a policy: how they are stored, and their features."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.config.model import ModelConfig
from trainables.core.data.batch import Rollout, as_tensor
from trainables.core.data.features import FRAMES, PREV_ACTION, PREV_REWARD, VECTOR, Features
from trainables.core.data.layout import ObservationLayout
from trainables.core.data.preprocessor import Preprocessor
from trainables.core.distributions.base import Distribution
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.networks.memory import State
from trainables.core.policy.actions import ActionConnector
from trainables.core.policy.filter import MeanStdFilter


class Observations:
    """The way from raw observations to features: connectors, frames, preprocessor and filter.

    Args:
        space: The space of raw observations.
        connectors: The user's connectors before the preprocessor, or None.
        distribution: The distribution of the actions, which a mask is of.
        actions: The way between the distribution's actions and the environment's.
        model: The `model` of the config.
        observation_filter: "NoFilter" or "MeanStdFilter".
        action_mask_key: The key of a Dict observation that says which actions are allowed.
        critic_obs_key: The key of a Dict observation that only the value function sees, or None.
        frame_stack: The number of observations that are seen as one.
        device: The device that features are computed on.

    Attributes:
        layout: The rows that observations are stored as.
        frames: The stack of frames, or None.
        num_frames: The number of observations that are seen as one.
        preprocessor: The way from leaves to features, described by its `spec`.
        filter: Running mean and standard deviation of the features, or None.
        mask_path: The observation's leaf that says which actions are allowed, or None.
    """

    def __init__(
        self,
        space: gym.Space,
        connectors: Any,
        distribution: Distribution,
        actions: ActionConnector,
        model: ModelConfig,
        *,
        observation_filter: str,
        action_mask_key: str,
        critic_obs_key: str | None,
        frame_stack: int,
        device: torch.device,
    ):
        self.space, self.device = space, device
        self._connectors, self._distribution, self._actions = connectors, distribution, actions
        self._seen_space = space if connectors is None else connectors.space
        self.mask_path = self._find_mask(action_mask_key)
        self._check_critic(critic_obs_key)
        self._extras = self._previous(model)
        self.layout = ObservationLayout(space, self._extras)
        self.frames = self._make_frames(frame_stack)
        self.num_frames = frame_stack
        self.preprocessor = Preprocessor(
            self._seen_space if self.frames is None else self.frames.space,
            mask=self.mask_path,
            critic_key=critic_obs_key,
            num_prev_action=self._extras.get(PREV_ACTION, 0),
            has_prev_reward=PREV_REWARD in self._extras,
            channels_first=None if self.frames is None else self.frames.channels_first,
            exact=observation_filter == "MeanStdFilter",
        )
        self.filter = self._make_filter(observation_filter)

    def _previous(self, model: ModelConfig) -> dict[str, int]:
        """Return what is stored beside observations, with its width: what led to them."""
        widths: dict[str, int] = {}
        if model.uses_prev_action:
            widths[PREV_ACTION] = self._distribution.num_encoded
        if model.uses_prev_reward:
            widths[PREV_REWARD] = 1
        return widths

    def _make_frames(self, num_frames: int) -> Any:
        if num_frames == 1:
            return None
        if self._extras:
            raise ConfigError(
                f"frame_stack = {num_frames} and a memory that sees previous actions or "
                "rewards exclude each other: the memory remembers the frames, too"
            )
        if not self.layout.is_plain:  # frames are kept as they are stored, before any connector
            raise ConfigError(
                f"frame_stack = {num_frames} needs environments with observations of one Box, not "
                f"{self.space}; allowed here: 1, or a memory (model: use_lstm)"
            )
        return feature("frames").stack(self._seen_space, num_frames)

    def _find_mask(self, key: str) -> str | None:
        """Return the path of the observation's action mask, or None if it has none."""
        mask = _part(self._seen_space, key)
        if mask is None:
            if _part(self.space, key) is not None:
                raise ConfigError(
                    f"env_to_module_connector: the action mask {key!r} is lost; allowed: to pass "
                    "it on, or another action_mask_key if actions are not to be masked"
                )
            return None
        size, needed = int(np.prod(mask.shape or ())), self._distribution.num_mask
        if size != needed or not size:
            raise ConfigError(
                f"observation {key!r}: a mask of {size} entries does not fit the action space "
                f"{self._actions.space}; allowed: {needed} entries (0: its actions cannot be "
                "masked; give the observation another key, or set action_mask_key)"
            )
        return key

    def _check_critic(self, key: str | None) -> None:
        """Refuse a key of what only the value function sees that is no part of an observation."""
        if key is None:
            return
        if _part(self._seen_space, key) is None:
            raise ConfigError(
                f"critic_obs_key = {key!r}: there is no such part of the observation, which is "
                f"{self._seen_space}; allowed: a key of a Dict observation"
            )
        if key == self.mask_path:
            raise ConfigError(
                f"critic_obs_key = {key!r} is the action mask, without which nothing can act; "
                "allowed: another key"
            )

    def _make_filter(self, observation_filter: str) -> MeanStdFilter | None:
        if observation_filter != "MeanStdFilter":
            return None
        if not self.preprocessor.num_features:
            raise ConfigError(
                "observation_filter = 'MeanStdFilter' has no effect on images; allowed with "
                f"{self._seen_space}: 'NoFilter'"
            )
        return MeanStdFilter(self.preprocessor.num_features)

    def features(self, obs: Any) -> Features:
        """Return what the module sees of stored observations.

        Args:
            obs: Rows as `layout` stores them `[..., *shape]`, or a tensor of a plain space's, or
                tensors by path. With frame stacking the last k of each, `[..., k, *shape]`.
        """
        features = self._unfiltered(obs)
        if self.filter is None:
            return features
        if isinstance(features, dict):
            features[VECTOR] = self.filter(features[VECTOR])
            return features
        return self.filter(features)

    def _unfiltered(self, obs: Any) -> Features:
        if self.frames is None:
            return self.preprocessor(self._connected(obs))
        stacks = self._tensors(obs)
        if self._connectors is not None:
            stacks = self.frames.connected(stacks, len(self.layout.shape), self._connectors)
        return self.preprocessor(self.frames.join(stacks))

    def seen(self, rollout: Rollout) -> Any:
        """Return what `features` takes of a rollout's rows, `[T+1, N, ...]`, in host memory."""
        if self.frames is None:
            return rollout.obs
        assert rollout.states is not None
        arrays = (rollout.obs, rollout.states[FRAMES][0], rollout.is_first)
        return self.frames.of_rollout(*(as_tensor(array, torch.device("cpu")) for array in arrays))

    def _connected(self, obs: Any) -> Any:
        """Return stored observations as tensors, through the user's connectors."""
        tensors = self._tensors(obs)
        return tensors if self._connectors is None else self._connectors(tensors)

    def _tensors(self, obs: Any) -> Any:
        if isinstance(obs, dict):
            return {path: part.to(self.device) for path, part in obs.items()}
        if isinstance(obs, Tensor):
            return obs.to(self.device)
        if self.layout.is_plain:
            return as_tensor(np.asarray(obs), self.device)
        return {
            path: as_tensor(leaf, self.device) for path, leaf in self.layout.leaves(obs).items()
        }

    def vector_features(self, obs: Any) -> np.ndarray:
        """Return the unfiltered vector part `[R, num_features]` of what `features` takes.

        What the observation filter's statistics are made of.
        """
        features = self._unfiltered(obs)
        vector = features[VECTOR] if isinstance(features, dict) else features
        return vector.reshape(-1, self.preprocessor.num_features).cpu().numpy()

    def extras(self, actions: Tensor | None, rewards: Any, is_first: Any) -> dict[str, Any] | None:
        """Return what is stored beside observations: the action and reward that led to them.

        Args:
            actions: Actions as the distribution gave them, `[N, …]`; None at the very start.
            rewards: The rewards of the actions, `[N]`.
            is_first: Whether the observations begin an episode, `[N]`: these get zeros.
        """
        if not self._extras or actions is None:
            return None
        going_on = ~np.asarray(is_first)[:, None]
        extras: dict[str, Any] = {}
        if PREV_ACTION in self._extras:
            # As `compute_single_action` is told of them: clipped, if they were.
            given = self._actions.to_stored(self._actions(actions))
            extras[PREV_ACTION] = self._distribution.encode(given).cpu().numpy() * going_on
        if PREV_REWARD in self._extras:
            extras[PREV_REWARD] = np.asarray(rewards)[:, None] * going_on
        return extras

    @property
    def extra_widths(self) -> dict[str, int]:
        """What is stored beside observations (`@prev_action`, `@prev_reward`), with its width."""
        return dict(self._extras)

    def without_action(self, obs: np.ndarray) -> np.ndarray | None:
        """Return which of stored observations `[N]` allow no action; None if there is no mask."""
        if self.mask_path is None:
            return None
        if self._connectors is None:
            mask = torch.from_numpy(obs[self.mask_path])
        else:
            mask = self._connected(obs)[self.mask_path].cpu()
        return (~self._distribution.allows_something(mask.reshape(len(obs), -1) != 0)).numpy()

    def not_finite(self, rows: np.ndarray) -> tuple[int, str] | None:
        """Return the first row of stored `[N]` with NaN or infinity, and its leaf; None: no row.

        What connectors make finite numbers of is none: infinity may be what a sensor says that
        sees nothing.
        """
        found = self.layout.not_finite(rows)
        if found is None or self._connectors is None:
            return found
        made = self._connected(rows)
        parts = made.values() if isinstance(made, dict) else [made]
        return None if all(bool(part.isfinite().all()) for part in parts) else found

    def features_and_state(self, rows: np.ndarray, state: State) -> tuple[Features, State, State]:
        """Return the features of rows, the memory's part of the state, and the frames after it."""
        if self.frames is None:
            return self.features(rows), state, {}
        stacked, frames = self.frames.with_last(self._tensors(rows), state[FRAMES])
        memory = {name: part for name, part in state.items() if name != FRAMES}
        return self.features(stacked), memory, {FRAMES: frames}


def _part(space: gym.Space, key: str) -> gym.Space | None:
    return space.spaces.get(key) if isinstance(space, gym.spaces.Dict) else None
