"""A policy's network as a program that runs without this project."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainables.core.features import map_tensors
from trainables.core.frame_stack import FRAMES
from trainables.core.policy import Policy
from trainables.core.recurrent_state import State
from trainables.core.spaces import PLAIN


class _Network(nn.Module):
    """Raw observations to distribution inputs and values, preprocessing and filter included."""

    def __init__(self, policy: Policy):
        super().__init__()
        # A copy: the learner's parameters are views of one vector, which would go along whole.
        self.module = copy.deepcopy(policy.module)
        self.module.set_noise(None)
        self._policy = policy

    def forward(self, obs: Tensor | dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        output = self.module(self._policy.features(obs))
        return output.dist_inputs, output.values


class _RecurrentNetwork(_Network):
    """One step: observations and a recurrent state to outputs and the next state."""

    def forward(  # type: ignore[override]  # a program takes what its network does
        self, obs: Tensor | dict[str, Tensor], state: State
    ) -> tuple[Tensor, Tensor, State]:
        features = map_tensors(lambda part: part.unsqueeze(0), self._policy.features(obs))
        num_rows = next(iter(state.values())).shape[0]  # len would fix it to the example's
        is_first = torch.zeros(1, num_rows, dtype=torch.bool)
        output, state = self.module.unroll(features, state, is_first)
        return output.dist_inputs[0], output.values[0], state


def export_torch_program(policy: Policy, folder: Path) -> Path:
    """Write `model.pt2`, to be read by `torch.export.load`.

    Args:
        policy: What is exported.
        folder: Made if missing.

    Returns:
        The file. Its program takes observations `[B, *shape]` (of a Dict or Tuple space a dict of
        them by path; with frame stacking the last k of each, `[B, k, *shape]`) and gives
        distribution inputs `[B, …]` and values `[B]`. That of a recurrent policy also takes and
        gives the state.
    """
    folder.mkdir(parents=True, exist_ok=True)
    leading = (3,) if policy.observations.frames is None else (3, policy.observations.num_frames)
    leaves = policy.observations.layout.leaves(policy.observations.layout.zeros(leading))
    tensors = {
        path: torch.from_numpy(leaf.copy()).to(policy.device) for path, leaf in leaves.items()
    }
    example: list[Any] = [tensors[PLAIN] if policy.observations.layout.is_plain else tensors]
    network: _Network = _Network(policy)
    if policy.is_recurrent:
        example.append({k: v for k, v in policy.initial_state(3).items() if k != FRAMES})
        network = _RecurrentNetwork(policy)
    batch = torch.export.Dim("batch", min=1)
    shapes = [
        {k: {0: batch} for k in part} if isinstance(part, dict) else {0: batch} for part in example
    ]
    with torch.no_grad(), warnings.catch_warnings():
        # PyTorch's LSTM and GRU hold their weights in a list, too, which is not exported.
        warnings.filterwarnings("ignore", "The tensor attributes .*_flat_weights", UserWarning)
        program = torch.export.export(network.eval(), tuple(example), dynamic_shapes=tuple(shapes))
    path = folder / "model.pt2"
    torch.export.save(program, path)
    return path
