"""A policy's network as a program that runs without this project."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.policy import Policy


class _Network(nn.Module):
    """Raw observations to distribution inputs and values, preprocessing and filter included."""

    def __init__(self, policy: Policy):
        super().__init__()
        # A copy: the learner's parameters are views of one vector, which would go along whole.
        self.module = copy.deepcopy(policy.module)
        self.module.set_noise(None)
        self._policy = policy

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        output = self.module(self._policy.features(obs))
        return output.dist_inputs, output.values


def export_torch_program(policy: Policy, folder: Path) -> Path:
    """Write `model.pt2`, to be read by `torch.export.load`.

    Args:
        policy: What is exported.
        folder: Made if missing.

    Returns:
        The file. Its program takes observations `[B, *shape]` and gives distribution inputs
        `[B, …]` and values `[B]`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    space = policy.observation_space
    example = torch.from_numpy(np.zeros((3, *(space.shape or ())), dtype=space.dtype))
    batch = torch.export.Dim("batch", min=1)
    with torch.no_grad():
        program = torch.export.export(
            _Network(policy).eval(), (example.to(policy.device),), dynamic_shapes=({0: batch},)
        )
    path = folder / "model.pt2"
    torch.export.save(program, path)
    return path
