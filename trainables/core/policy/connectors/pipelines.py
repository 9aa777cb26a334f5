"""Users' connectors before the preprocessor and behind the actions, as pipelines of functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.data.spaces import (
    PLAIN,
    leaf_spaces,
    leaves_of,
    map_leaves,
    path_of,
    tree_of_leaves,
)
from trainables.core.errors import ConfigError
from trainables.core.policy.actions import torch_dtype
from trainables.core.policy.connectors.given import Connector, made_connectors

_BEFORE, _BEHIND = "env_to_module_connector", "module_to_env_connector"
_NUM_EXAMPLES = 3
_DTYPES = (
    torch.bool,
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.float32, torch.float64),
)
_DTYPE_NAMES = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)


class EnvToModule:
    """A pipeline of functions from batches of observations to batches of observations.

    Each takes PyTorch tensors on the policy's device, `[B, *shape]`, in a dict or tuple as the
    space is nested, and returns the same rows in any nesting. It is called again when what it saw
    is learned from, so that it must give the same for the same observations.

    Args:
        connectors: The connectors in order.
        space: The space of the environment's observations.

    Attributes:
        space: The space of observations as the last connector makes them.

    Raises:
        ConfigError: naming the connector and what is wrong with what it makes.
    """

    def __init__(self, connectors: Sequence[Connector], space: gym.Space):
        self._input_space = self.space = space
        self._connectors = list(connectors)
        self._leaves = [leaf_spaces(space)]
        for connector in self._connectors:
            self.space = _space_after(connector, self.space)
            what = f"{_BEFORE}: {connector.name} makes a space that"
            self._leaves.append(leaf_spaces(self.space, what))

    def __call__(self, leaves: Tensor | Mapping[str, Tensor]) -> Tensor | dict[str, Tensor]:
        """Return what the pipeline makes of stored observations.

        Args:
            leaves: Rows `[..., *shape]` of a plain space, or leaves by path. What is stored beside
                an observation stays as it is.
        """
        by_path = {PLAIN: leaves} if isinstance(leaves, Tensor) else dict(leaves)
        inputs = {path: by_path.pop(path) for path in self._leaves[0]}
        path, tensor = next(iter(inputs.items()))
        leading = tensor.shape[: tensor.dim() - len(self._leaves[0][path].shape or ())]
        if len(leading) != 1:
            inputs = {
                path: part.reshape(-1, *part.shape[len(leading) :]) for path, part in inputs.items()
            }
        made = self._apply(inputs)
        if len(leading) != 1:
            made = {p: part.reshape(*leading, *part.shape[1:]) for p, part in made.items()}
        if isinstance(leaves, Tensor) and PLAIN in made:
            return made[PLAIN]
        return {**made, **by_path}

    def _apply(self, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
        num_rows = next(iter(leaves.values())).shape[0]  # not len: exported programs would fix it
        obs = tree_of_leaves(self._input_space, leaves)
        for connector, expected in zip(self._connectors, self._leaves[1:], strict=True):
            obs = connector.apply(_BEFORE, obs)
            leaves = _checked(connector, obs, num_rows)
            if leaves.keys() != expected.keys():
                raise _bad(connector, f"made {[*leaves]}, not {[*expected]}")
            for path, leaf in expected.items():
                if leaves[path].shape[1:] != (leaf.shape or ()):
                    shape = tuple(leaves[path].shape[1:])
                    raise _bad(connector, f"made the shape {shape}, not {leaf.shape}{_at(path)}")
        return leaves


class ModuleToEnv:
    """A pipeline of functions from batches of actions to what the environment is given.

    Each takes a batch of actions as a vector environment does: a numpy array `[N, *shape]`, or a
    dict or tuple of them. The learner keeps the module's own actions.

    Args:
        connectors: The connectors in order, from the module to the environment.
        env_space: The space of the environment's actions.

    Attributes:
        space: The space of the module's actions: the environment's, unless a connector's `space`
            says, given the space that it makes actions for, what it makes them of.

    Raises:
        ConfigError: naming the connector and what is wrong with its space.
    """

    def __init__(self, connectors: Sequence[Connector], env_space: gym.Space):
        self._env_space = self.space = env_space
        self._connectors = list(connectors)
        self._names = " and ".join(connector.name for connector in connectors)
        for connector in reversed(self._connectors):
            if connector.space is not None:
                self.space = connector.space_of(_BEHIND, self.space)

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
                    f"{_BEHIND}: {connector.name} makes a connector with a method space, which is "
                    "asked before the networks are made: make it of (env) alone"
                )
            made += late
        self._connectors = made

    def __call__(self, actions: Any) -> Any:
        """Return actions for the environment, of the shapes and dtypes of its space."""
        for connector in self._connectors:
            actions = connector.apply(_BEHIND, actions)
        try:
            return map_leaves(self._fitted, self._env_space, actions)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{_BEHIND}: {self._names} made no action: {error!r}") from error

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
            spaces = leaf_spaces(self._env_space)
            for path, leaf in spaces.items():
                if not isinstance(made[path], Tensor):
                    raise TypeError(f"made a {type(made[path]).__name__}")
                if made[path].shape[1:] != (leaf.shape or ()):
                    raise TypeError(f"made the shape {tuple(made[path].shape)}")
        except Exception as error:  # whatever a user's code raises
            raise ConfigError(
                f"{_BEHIND}: {self._names} works on numpy arrays, not on PyTorch tensors, and "
                "cannot be part of an exported program; allowed: what takes both, by operators "
                f"and methods that both have ({type(error).__name__}: {error})"
            ) from error
        return {path: made[path].to(torch_dtype(leaf.dtype)) for path, leaf in spaces.items()}

    def _fitted(self, space: gym.Space, actions: Any) -> np.ndarray:
        array = np.asarray(actions).astype(space.dtype, copy=False)
        if array.ndim == 0 or array.shape[1:] != space.shape:
            raise ConfigError(
                f"{_BEHIND}: {self._names} made actions of shape {array.shape}; allowed: "
                f"(batch, {', '.join(map(str, space.shape or ()))})"
            )
        return array


def _space_after(connector: Connector, space: gym.Space) -> gym.Space:
    """Return what a connector makes of a space: what it says, or what shows when it is applied.

    What it leaves as it is, or changes without another shape or dtype, keeps its space.
    """
    if connector.space is not None:
        return connector.space_of(_BEFORE, space)
    spaces = leaf_spaces(space)
    inputs = {path: torch.from_numpy(_examples(leaf)) for path, leaf in spaces.items()}
    with torch.no_grad():
        obs = connector.apply(_BEFORE, tree_of_leaves(space, inputs))
    _checked(connector, obs, _NUM_EXAMPLES)

    def leaf_space(path: str, tensor: Tensor) -> gym.Space:
        same = (spaces[p] for p, given in inputs.items() if given is tensor)
        found = next(same, None)
        if found is not None:
            return found
        given = inputs.get(path)
        if given is not None and (given.shape, given.dtype) == (tensor.shape, tensor.dtype):
            return spaces[path]
        if tensor.dtype not in _DTYPES:
            raise _bad(connector, f"made {tensor.dtype}{_at(path)}; allowed: {_DTYPE_NAMES}")
        return _box(tensor)

    return _space_of(obs, (), leaf_space)


def _examples(leaf: gym.Space) -> np.ndarray:
    """Return some observations of a leaf: the least integers, what of a Box is nearest to 0."""
    if isinstance(leaf, gym.spaces.Box):
        least = np.clip(np.zeros(leaf.shape, leaf.dtype), leaf.low, leaf.high)
    else:
        least = np.zeros(leaf.shape or (), leaf.dtype) + getattr(leaf, "start", 0)
    return np.stack([np.asarray(least, leaf.dtype)] * _NUM_EXAMPLES)


def _box(tensor: Tensor) -> gym.Space:
    """Return the space of what is only known by its shape and dtype."""
    shape = tuple(tensor.shape[1:])
    if tensor.dtype == torch.bool:
        return gym.spaces.MultiBinary(shape)
    dtype: Any = tensor[:0].numpy().dtype.type
    if np.issubdtype(dtype, np.floating):
        return gym.spaces.Box(-np.inf, np.inf, shape, dtype)
    limits = np.iinfo(dtype)
    return gym.spaces.Box(limits.min, limits.max, shape, dtype)


def _space_of(obs: Any, keys: tuple[Any, ...], leaf_space: Any) -> gym.Space:
    if isinstance(obs, dict):
        parts = [(key, _space_of(part, (*keys, key), leaf_space)) for key, part in obs.items()]
        return gym.spaces.Dict(parts)
    if isinstance(obs, (tuple, list)):
        return gym.spaces.Tuple(
            [_space_of(part, (*keys, index), leaf_space) for index, part in enumerate(obs)]
        )
    return leaf_space(path_of(keys), obs)


def _checked(connector: Connector, obs: Any, num_rows: int) -> dict[str, Tensor]:
    """Return what a connector made, by path.

    Raises:
        ConfigError: if a leaf is no tensor or has other rows than what was given.
    """
    leaves = {path_of(keys): leaf for keys, leaf in _walk(obs, ())}
    for path, leaf in leaves.items():
        if not isinstance(leaf, Tensor):
            raise _bad(
                connector,
                f"made a {type(leaf).__name__}{_at(path)}; it must return PyTorch tensors"
                f"{made_connectors(_BEFORE, leaf)}",
            )
        if leaf.dim() == 0 or leaf.shape[0] != num_rows:
            raise _bad(
                connector,
                f"made the shape {tuple(leaf.shape)}{_at(path)} of {num_rows} observations; the "
                "first axis is the batch and must stay as it is",
            )
    return leaves


def _walk(obs: Any, keys: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(obs, dict):
        for key, part in obs.items():
            yield from _walk(part, (*keys, key))
    elif isinstance(obs, (tuple, list)):
        for index, part in enumerate(obs):
            yield from _walk(part, (*keys, index))
    else:
        yield keys, obs


def _at(path: str) -> str:
    return "" if path == PLAIN else f" at {path!r}"


def _bad(connector: Connector, problem: str) -> ConfigError:
    return ConfigError(f"{_BEFORE}: {connector.name} {problem}")
