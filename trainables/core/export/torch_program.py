"""A policy as a program that runs without this project: `model.pt2`, for `torch.export.load`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.core.errors import ConfigError
from trainables.core.export.description import graph_description, write_description
from trainables.core.export.graph_verification import Recording, Run, sampled, verified
from trainables.core.export.policy_graph import Named, PolicyGraph, TensorSpec
from trainables.core.policy.policy import Policy

TORCH_FILE = "model.pt2"


class TracedGraph:
    """A policy's graph as a program, and what goes in and out of it.

    Args:
        policy: The policy to export.

    Attributes:
        graph: The graph as a module.
        program: The graph traced with a dynamic batch, from dict to dict of tensors `[B, …]`.
        example: A batch of three inputs by name.
        outputs: The outputs in order.

    Raises:
        ConfigError: if a connector or a custom model cannot be traced.
    """

    def __init__(self, policy: Policy):
        self.policy, self.graph = policy, PolicyGraph(policy)
        rows = sampled(policy, 1, 3).rows[0]
        self.example: Named = {
            name: torch.from_numpy(array) for name, array in self.graph.arrays(rows, {}).items()
        }
        # Not 1, which would be taken for a constant.
        batch = torch.export.Dim("batch", min=1)
        shapes = ({name: {0: batch} for name in self.example},)
        with torch.no_grad(), warnings.catch_warnings():
            # PyTorch's LSTM and GRU hold their weights in a list, too, which is not exported.
            warnings.filterwarnings("ignore", "The tensor attributes .*_flat_weights", UserWarning)
            try:
                made = self.graph(self.example)
                self.outputs = [TensorSpec.of(name, part) for name, part in made.items()]
                self.program: Any = torch.export.export(
                    self.graph, (self.example,), dynamic_shapes=shapes
                )
            except ConfigError:
                raise
            except Exception as error:  # of the tracer, about anything a user's code does
                raise ConfigError(
                    "the policy cannot be exported as a graph: a connector or custom model does "
                    "what depends on the values or the number of rows "
                    f"({type(error).__name__}: {_first_line(error)})"
                ) from error


def export_torch_program(
    policy: Policy, folder: str | os.PathLike[str], recordings: list[Recording] | None = None
) -> Path:
    """Write `model.pt2`, for `torch.export.load`, and `model.pt2.json`, which describes it.

    The program takes a dict of tensors and gives one; see `policy_graph`. It is read again and
    checked against the policy before it takes its place, see `verified`.

    Args:
        policy: The policy to export.
        folder: The folder to write to; made if missing.
        recordings: Observations of an environment, to check the program on besides sampled ones.

    Returns:
        The file.

    Raises:
        ConfigError: if the policy cannot be exported, or the program acts otherwise than it.
    """
    traced = TracedGraph(policy)

    def save(path: Path) -> None:
        torch.export.save(traced.program, path)

    file, versions = Path(folder) / TORCH_FILE, {"torch": torch.__version__}
    return write_program(traced, file, save, torch_program, versions, recordings)


def write_program(
    traced: TracedGraph,
    file: Path,
    save: Callable[[Path], None],
    load: Callable[[Path], Run],
    versions: dict[str, Any],
    recordings: list[Recording] | None,
) -> Path:
    """Write a graph's file and its description, if it acts as the policy does.

    Args:
        traced: The graph.
        file: The file; it takes its place once it is checked.
        save: Writes the graph to a path.
        load: Returns what a file computes, arrays by name of arrays by name.
        versions: Versions of the libraries that make the file, by name.
        recordings: Observations to check it on besides sampled ones.

    Returns:
        The file.

    Raises:
        ConfigError: if it acts otherwise than the policy.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    work = file.with_name(f".new-{file.name}")
    try:
        save(work)
        policy, graph = traced.policy, traced.graph
        report = verified(policy, graph, load(work), recordings)
        description = graph_description(policy, graph, traced.outputs, report, versions)
        write_description(file, description, work)
    finally:
        work.unlink(missing_ok=True)
    return file


def torch_program(path: str | os.PathLike[str]) -> Any:
    """Return a `model.pt2` as a function of arrays by name. PyTorch runs what the file says."""
    module = torch.export.load(path).module()

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            made = module({name: torch.from_numpy(array) for name, array in inputs.items()})
        return {name: part.numpy() for name, part in made.items()}

    return run


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]
