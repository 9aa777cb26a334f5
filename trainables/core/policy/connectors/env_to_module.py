"""Users' connectors between raw observations and the preprocessor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.data.spaces import PLAIN, leaf_spaces, path_of, tree_of_leaves
from trainables.core.errors import ConfigError
from trainables.core.policy.connectors.given import Connector
from trainables.core.policy.connectors.signatures import made_connectors

_SETTING = "env_to_module_connector"


class EnvToModule:
    """A pipeline of functions from batches of observations to batches of observations.

    Each takes PyTorch tensors on the policy's device, `[B, *shape]`, in a dict or tuple as the
    space is nested, and returns the same rows in any nesting. It is called again when what it saw
    is learned from, so that it must give the same for the same observations.

    Args:
        connectors: In order.
        space: Of one observation of the environment.

    Attributes:
        space: Of one observation as the last one makes it.

    Raises:
        ConfigError: naming the connector and what is wrong with what it makes.
    """

    def __init__(self, connectors: Sequence[Connector], space: gym.Space):
        self._input_space = self.space = space
        self._connectors = list(connectors)
        self._leaves = [{path: leaf for path, (_, leaf) in leaf_spaces(space).items()}]
        for connector in self._connectors:
            self.space = _space_after(connector, self.space)
            leaves = leaf_spaces(self.space, f"{_SETTING}: {connector.name} makes a space that")
            self._leaves.append({path: leaf for path, (_, leaf) in leaves.items()})

    def __call__(self, leaves: Tensor | Mapping[str, Tensor]) -> Tensor | dict[str, Tensor]:
        """What the pipeline makes of stored observations.

        Args:
            leaves: `[..., *shape]` of a plain space, or by path. What is stored beside an
                observation stays as it is.
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
            obs = connector.apply(_SETTING, obs)
            leaves = _checked(connector, obs, num_rows)
            if leaves.keys() != expected.keys():
                raise _bad(connector, f"made {[*leaves]}, not {[*expected]}")
            for path, leaf in expected.items():
                if leaves[path].shape[1:] != (leaf.shape or ()):
                    shape = tuple(leaves[path].shape[1:])
                    raise _bad(connector, f"made the shape {shape}, not {leaf.shape}{_at(path)}")
        return leaves


def _space_after(connector: Connector, space: gym.Space) -> gym.Space:
    """Return what a connector makes of a space: what it says, or what shows when it is applied.

    What it leaves as it is, or changes without another shape or dtype, keeps its space.
    """
    if connector.space is not None:
        return connector.space_of(_SETTING, space)
    spaces = {path: leaf for path, (_, leaf) in leaf_spaces(space).items()}
    inputs = {path: torch.from_numpy(_examples(leaf)) for path, leaf in spaces.items()}
    with torch.no_grad():
        obs = connector.apply(_SETTING, tree_of_leaves(space, inputs))
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


_NUM_EXAMPLES = 3
_DTYPES = (
    torch.bool,
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.float32, torch.float64),
)
_DTYPE_NAMES = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)


def _examples(leaf: gym.Space) -> np.ndarray:
    """Some observations of a leaf: the least of integers, what is nearest to 0 of a Box."""
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
                f"{made_connectors(_SETTING, leaf)}",
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
    return ConfigError(f"{_SETTING}: {connector.name} {problem}")
