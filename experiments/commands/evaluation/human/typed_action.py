"""Actions as a human types them: a number, or several."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from experiments.errors import ExperimentError
from trainables.runtime.evaluation.matches.legal_actions import shown_numbers

_MOST_NUMBERS = 16


class NotAnAction(Exception):
    """What was typed is none; the message says what is allowed."""


def check_can_be_typed(space: gym.Space, agent: Any) -> None:
    """Refuse actions that nobody would type.

    Raises:
        ExperimentError: naming the agent and its action space.
    """
    is_array = isinstance(
        space,
        gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary | gym.spaces.Box,
    )
    if not is_array or np.prod(space.shape or ()) > _MOST_NUMBERS:
        raise ExperimentError(
            f"--opponent human: the agent {agent!r} does {space}; allowed: actions of at most "
            f"{_MOST_NUMBERS} numbers, which can be typed"
        )


def allowed_text(space: gym.Space, mask: np.ndarray | None = None) -> str:
    """Return what may be typed.

    Args:
        space: The agent's action space.
        mask: Which actions of a Discrete are allowed, `[n]`; None: all.
    """
    if isinstance(space, gym.spaces.Discrete):
        legal = np.arange(space.n) if mask is None else np.flatnonzero(mask)
        return shown_numbers((legal + space.start).tolist())
    count = int(np.prod(space.shape or ()))
    kind = "numbers" if _is_real(space) else "whole numbers"
    if isinstance(space, gym.spaces.MultiDiscrete):
        low, high = space.start.ravel(), (space.start + space.nvec - 1).ravel()
    elif isinstance(space, gym.spaces.Box):
        low, high = space.low.ravel(), space.high.ravel()
    else:
        low, high = np.zeros(count, np.int64), np.ones(count, np.int64)
    ends = ", ".join(f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True))
    return f"{count} {kind} with spaces between: {ends}" if count > 1 else f"{kind[:-1]} {ends}"


def read_action(text: str, space: gym.Space, mask: np.ndarray | None = None) -> np.ndarray:
    """Return a typed action as an array of the space's shape and dtype.

    Args:
        text: What was typed.
        space: The agent's action space.
        mask: See `allowed_text`.

    Raises:
        NotAnAction: saying what is allowed.
    """
    refused = NotAnAction(f"{text.strip()!r} is not allowed; allowed: {allowed_text(space, mask)}")
    number = float if _is_real(space) else int
    try:
        numbers = [number(word) for word in text.split()]
        if len(numbers) != int(np.prod(space.shape or ())):
            raise refused
        action = np.array(numbers, space.dtype).reshape(space.shape or ())
    except (ValueError, OverflowError):
        raise refused from None
    if not space.contains(action[()] if action.ndim == 0 else action):
        raise refused
    if isinstance(space, gym.spaces.Discrete):
        is_legal = mask is None or mask[int(action) - int(space.start)]
        if not is_legal:
            raise refused
    return action


def _is_real(space: gym.Space) -> bool:
    return isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)
