"""Policies written by hand: they act for agents and do not learn.

A `PolicySpec` gives one as its `policy_class`: the name of a built-in one such as "random", a
subclass of `FixedPolicy`, or `module:name` of one.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.config.agents.policy_specs import BUILT_IN
from trainables.core.config.policies import PolicySpec
from trainables.core.data.spaces import PLAIN, leaf_spaces, leaves_of, tree_of_leaves
from trainables.core.errors import ConfigError

_CLASSES = "a class with compute_actions, such as a subclass of FixedPolicy"


class PlayEnded(Exception):
    """Raised by `compute_actions` to end an evaluation with the episodes that have ended."""


class FixedPolicy(ABC):
    """A policy written by hand. Derive from it and write `compute_actions`.

    It has no memory of its own: one object acts for many agents in many episodes.

    Args:
        observation_space: What an agent sees.
        action_space: What an agent does.
        config: What `PolicySpec.config` gives it.

    Attributes:
        asked: The agents that `compute_actions` is called for, `[B]`.

    Example:
        >>> class AlwaysUp(FixedPolicy):
        ...     def compute_actions(self, observations, rng, masks=None):
        ...         return np.zeros(len(observations), np.int64)
    """

    asked: Sequence[Hashable] = ()

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        config: Mapping[str, Any] | None = None,
    ):
        self.observation_space, self.action_space = observation_space, action_space
        self.config: dict[str, Any] = dict(config or {})

    @abstractmethod
    def compute_actions(
        self, observations: Any, rng: np.random.Generator, masks: np.ndarray | None = None
    ) -> Any:
        """Return an action for each of B agents.

        Args:
            observations: Batched as gymnasium batches the observation space, `[B, …]`.
            rng: The only source of chance, so that runs can be repeated.
            masks: Which discrete actions are allowed, `[B, M]`, bool: the entries of the parts of
                the action space side by side, n of a Discrete, the sum of nvec of a MultiDiscrete,
                two of each bit of a MultiBinary (may it be 0, may it be 1). None: all.

        Returns:
            Actions, batched as gymnasium batches the action space, `[B, …]`.
        """


class RandomPolicy(FixedPolicy):
    """Draws every action uniformly over the action space, of those that a mask allows.

    Raises:
        ConfigError: if actions have no bounds.
    """

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        config: Mapping[str, Any] | None = None,
    ):
        super().__init__(observation_space, action_space, config)
        self._parts = leaf_spaces(action_space, "action space")
        for path, part in self._parts.items():
            if isinstance(part, gym.spaces.Box) and not part.is_bounded():
                where = "" if path == PLAIN else f", at {path!r}"
                raise ConfigError(
                    f"a random policy needs bounds, which {part} of the action space has not{where}"
                )

    def compute_actions(
        self, observations: Any, rng: np.random.Generator, masks: np.ndarray | None = None
    ) -> Any:
        count = len(next(iter(leaves_of(self.observation_space, observations).values())))
        if masks is not None:
            masks = self._flat(np.asarray(masks), count)
        drawn, begin = {}, 0
        for path, part in self._parts.items():
            end = begin + _mask_size(part)
            mask = None if masks is None or begin == end else masks[:, begin:end]
            drawn[path] = _draw(part, count, rng, mask)
            begin = end
        return tree_of_leaves(self.action_space, drawn)

    def _flat(self, masks: np.ndarray, count: int) -> np.ndarray:
        """Return masks of any shape as `[B, M]`, bool."""
        size = sum(map(_mask_size, self._parts.values()))
        if not size or masks.size != count * size or len(masks) != count:
            raise ConfigError(
                f"masks of shape {masks.shape} do not fit {count} agents with {self.action_space}; "
                f"allowed: {(count, size) if size else 'none, its actions cannot be masked'}"
            )
        return masks.reshape(count, size) != 0


def make_fixed_policy(policy_id: str, spec: PolicySpec) -> FixedPolicy:
    """Make a policy that is written by hand. Its class is imported, if it is given by its name.

    Args:
        policy_id: Its id, for errors.
        spec: What it is, with its spaces.

    Raises:
        ConfigError: if there is no such class, or it is of another kind.
    """
    where = f"policies: {policy_id!r}: policy_class"
    given = spec.policy_class
    found: Any = given
    if isinstance(given, str):
        found = _found(BUILT_IN.get(given, given), where)
    acts = isinstance(found, type) and callable(getattr(found, "compute_actions", None))
    if not acts or inspect.isabstract(found):
        raise ConfigError(f"{where} = {given!r} is not allowed; allowed: {_CLASSES}")
    try:
        made: FixedPolicy = found(spec.observation_space, spec.action_space, spec.config)
    except ConfigError as error:
        raise ConfigError(f"policies: {policy_id!r}: {error}") from None
    except Exception as error:
        raise ConfigError(
            f"{where} = {callable_name(found)} raised {type(error).__name__}: {error}, made with "
            f"(observation_space, action_space, config) and config = {spec.config!r}"
        ) from error
    return made


def _found(name: str, where: str) -> Any:
    """Import a class by its name.

    Raises:
        ConfigError: if there is none, naming the policy.
    """
    try:
        return resolve_callable(name)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}; allowed: 'module:name' of {_CLASSES}") from None


def actions_of(
    policy: FixedPolicy,
    policy_id: str,
    action_space: gym.Space,
    observations: Any,
    rng: np.random.Generator,
    masks: np.ndarray | None,
    count: int,
) -> Any:
    """Return the actions that a policy gives for agents, checked: its class is the user's.

    Args:
        policy: Acts.
        policy_id: Its id, for errors.
        action_space: That of the agents.
        observations: See `FixedPolicy.compute_actions`.
        rng: Likewise.
        masks: Likewise.
        count: The number of agents, B.

    Returns:
        A tree of arrays `[B, …]`, nested as the action space is.

    Raises:
        ConfigError: if it raises, or gives what are no actions of the space.
        PlayEnded: if it raises that.
    """
    if type(policy) is RandomPolicy:
        return policy.compute_actions(observations, rng, masks)
    where = f"policies: {policy_id!r}: compute_actions of {callable_name(type(policy))}"
    try:
        given = policy.compute_actions(observations, rng, masks)
    except PlayEnded:
        raise
    except Exception as error:
        raise ConfigError(
            f"{where} raised {type(error).__name__}: {error}, called with "
            f"(observations, rng, masks) of {count} agents"
        ) from error
    spaces = leaf_spaces(action_space, "action space")
    try:
        parts = leaves_of(action_space, given)
        found = {path: np.asarray(parts[path]) for path in spaces}
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{where} gave a {type(given).__name__} that holds no actions ({type(error).__name__}: "
            f"{error}); allowed: actions of {action_space}, batched"
        ) from None
    for path, space in spaces.items():
        problem = _why_no_actions(space, found[path], count)
        if problem:
            part = "" if path == PLAIN else f" at {path!r}"
            raise ConfigError(f"{where} gave actions{part} {problem} ({space})")
    return tree_of_leaves(action_space, found)


def _why_no_actions(space: gym.Space, actions: np.ndarray, count: int) -> str | None:
    """Return why an array holds no actions `[B, …]` of a leaf, and what is allowed."""
    shape = (count, *(space.shape or ()))
    if actions.shape != shape:
        return f"of shape {actions.shape}; allowed: {shape}, a row for each agent"
    dtype = np.dtype(space.dtype)
    if not np.can_cast(actions.dtype, dtype, "same_kind"):
        return f"of dtype {actions.dtype}; allowed: {dtype}"
    if isinstance(space, gym.spaces.Box):
        return None if np.isfinite(actions).all() else "that are not finite numbers"
    low, high = _ends(space)
    values = actions.astype(np.int64)
    outside = values[(values < low) | (values > high)]
    return f"of which {outside[0]} is outside the space" if len(outside) else None


def _ends(space: gym.Space) -> tuple[Any, Any]:
    """Return the lowest and highest values of a leaf of whole numbers."""
    if isinstance(space, gym.spaces.Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return 0, 1


def _mask_size(space: gym.Space) -> int:
    """Return how many entries of a mask are of a leaf of an action space."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.n)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return 2 * int(np.prod(space.shape or ())) if isinstance(space, gym.spaces.MultiBinary) else 0


def _draw(
    space: gym.Space, count: int, rng: np.random.Generator, mask: np.ndarray | None
) -> np.ndarray:
    """Return values of a leaf, `[B, *shape]`, of its dtype.

    Args:
        space: The leaf.
        count: Rows, B.
        rng: The random stream.
        mask: What is allowed, `[B, _mask_size(space)]`, bool; None: everything.
    """
    shape = (count, *(space.shape or ()))
    if isinstance(space, gym.spaces.Box):
        return _draw_box(space, rng.random(shape))
    if isinstance(space, gym.spaces.Discrete):
        sizes, start = np.array([space.n]), np.asarray(space.start)
    elif isinstance(space, gym.spaces.MultiDiscrete):
        sizes, start = space.nvec.ravel(), space.start
    else:
        sizes, start = np.full(int(np.prod(space.shape or ())), 2), np.asarray(0)
    draws = rng.random((count, len(sizes)))
    choices = np.floor(draws * sizes).astype(np.int64)
    if mask is not None:
        parts = np.split(mask, np.cumsum(sizes)[:-1], axis=1)
        columns = [_legal(part, draws[:, i]) for i, part in enumerate(parts)]
        choices = np.stack(columns, axis=1)
    return np.asarray((choices.reshape(shape) + start).astype(space.dtype))


def _draw_box(space: gym.spaces.Box, draws: np.ndarray) -> np.ndarray:
    """Return values between the bounds, of draws from [0, 1); whole numbers up to the last one."""
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    is_whole = space.dtype.kind != "f"
    values = low + draws * (high - low + is_whole)
    values = np.floor(values) if is_whole else values
    return np.asarray(values.clip(low, high).astype(space.dtype))


def _legal(mask: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return an allowed choice for each row, `[B]`: of n allowed ones the one at `draws * n`.

    Where a mask allows nothing, all choices are as likely, as in `legal_actions`.
    """
    mask = mask | ~mask.any(axis=1, keepdims=True)
    wanted = np.floor(draws * mask.sum(axis=1)).astype(np.int64)
    rank = np.cumsum(mask, axis=1) - 1
    return np.asarray(np.argmax(mask & (rank == wanted[:, None]), axis=1))
