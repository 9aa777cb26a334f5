"""Users' connectors between the module's actions and the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from torch import Tensor

from trainables.core.data.spaces import leaf_spaces, leaves_of
from trainables.core.errors import ConfigError
from trainables.core.policy.connectors.actions import torch_dtype
from trainables.core.policy.connectors.given import Connector

_SETTING = "module_to_env_connector"


class ModuleToEnv:
    """A pipeline of functions from batches of actions to what the environment is given.

    Each takes a batch of actions as a vector environment does: a numpy array `[N, *shape]`, or a
    dict or tuple of them. The learner keeps the module's own actions.

    Args:
        connectors: In order, from the module to the environment.
        env_space: Of one action of the environment.

    Attributes:
        space: Of one action of the module: the environment's, unless a connector's `space` says,
            given the space that it makes actions for, what it makes them of.

    Raises:
        ConfigError: naming the connector and what is wrong with its space.
    """

    def __init__(self, connectors: Sequence[Connector], env_space: gym.Space):
        self._env_space = self.space = env_space
        self._connectors = list(connectors)
        self._names = " and ".join(connector.name for connector in connectors)
        for connector in reversed(self._connectors):
            if connector.space is not None:
                self.space = connector.space_of(_SETTING, self.space)

    def take_module(self, module: Any) -> None:
        """Make the connectors that are made with the networks.

        Raises:
            ConfigError: if one is none, or acts in a space of its own: the networks are made for
                that of the others.
        """
        made: list[Connector] = []
        for connector in self._connectors:
            if connector.of_module is None:
                made.append(connector)
                continue
            late = connector.of_module(module)
            if any(one.space is not None for one in late):
                raise ConfigError(
                    f"{_SETTING}: {connector.name} makes a connector with a method space, which is "
                    "asked before the networks are made: make it of (env) alone"
                )
            made += late
        self._connectors = made

    def __call__(self, actions: Any) -> Any:
        """Actions for the environment, of the shapes and dtypes of its space."""
        for connector in self._connectors:
            actions = connector.apply(_SETTING, actions)
        return self._fitted(self._env_space, actions)

    def tensors(self, actions: Any) -> dict[str, Tensor]:
        """Return what a call gives, by path and as tensors, for programs without numpy.

        Raises:
            ConfigError: if a connector takes nothing but numpy arrays, or makes none of the shapes
                of the space.
        """
        try:
            for connector in self._connectors:
                actions = connector.call(actions)
            made = leaves_of(self._env_space, actions)
            spaces = {path: leaf for path, (_, leaf) in leaf_spaces(self._env_space).items()}
            for path, leaf in spaces.items():
                if not isinstance(made[path], Tensor):
                    raise TypeError(f"made a {type(made[path]).__name__}")
                if made[path].shape[1:] != (leaf.shape or ()):
                    raise TypeError(f"made the shape {tuple(made[path].shape)}")
        except Exception as error:  # whatever a user's code raises
            raise ConfigError(
                f"{_SETTING}: {self._names} works on numpy arrays, not on PyTorch tensors, and "
                "cannot be part of an exported program; allowed: what takes both, by operators "
                f"and methods that both have ({type(error).__name__}: {error})"
            ) from error
        return {path: made[path].to(torch_dtype(leaf.dtype)) for path, leaf in spaces.items()}

    def _fitted(self, space: gym.Space, actions: Any) -> Any:
        try:
            if isinstance(space, gym.spaces.Dict):
                return {key: self._fitted(part, actions[key]) for key, part in space.spaces.items()}
            if isinstance(space, gym.spaces.Tuple):
                parts = zip(space.spaces, actions, strict=True)
                return tuple(self._fitted(part, action) for part, action in parts)
            array = np.asarray(actions).astype(space.dtype, copy=False)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ConfigError(f"{_SETTING}: {self._names} made no action: {error!r}") from error
        if array.ndim == 0 or array.shape[1:] != space.shape:
            raise ConfigError(
                f"{_SETTING}: {self._names} made actions of shape {array.shape}; allowed: "
                f"(batch, {', '.join(map(str, space.shape or ()))})"
            )
        return array
