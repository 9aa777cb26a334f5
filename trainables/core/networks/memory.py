"""Recurrent state: what a module remembers of an episode, as tensors by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

State = dict[str, Tensor]
"""`[B, ...]` by name. Every episode begins with zeros; {} is the state of a feed-forward module."""


def reset_state(state: State, is_first: np.ndarray | Tensor) -> State:
    """Return the state with zeros in the slots that begin an episode.

    Args:
        state: The state of each slot, `[N, ...]` by name.
        is_first: Whether a slot begins an episode, `[N]`, bool.
    """
    first = torch.as_tensor(is_first)
    if not state or not first.any():
        return state
    return {
        name: part.masked_fill(first.to(part.device).view(-1, *[1] * (part.dim() - 1)), 0)
        for name, part in state.items()
    }


def state_arrays(state: State) -> dict[str, np.ndarray]:
    """Return copies of a state's parts as arrays, on the CPU."""
    return {name: part.cpu().numpy().copy() for name, part in state.items()}


def stacked_states(states: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return S states as one, `[S, N, ...]` by name."""
    return {name: np.stack([state[name] for state in states]) for name in states[0]}
