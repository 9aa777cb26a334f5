"""Users' connectors between the module's actions and the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.given_connectors import Connector
from trainables.core.settings import ConfigError

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

    def __call__(self, actions: Any) -> Any:
        """Actions for the environment, of the shapes and dtypes of its space."""
        for connector in self._connectors:
            actions = connector.apply(_SETTING, actions)
        return self._fitted(self._env_space, actions)

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
