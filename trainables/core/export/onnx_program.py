"""A policy as an ONNX graph: `policy.onnx`, which runs wherever onnxruntime does."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.core.errors import ConfigError
from trainables.core.export.graph_verification import Recording
from trainables.core.export.torch_program import TracedGraph, write_program
from trainables.core.policy.policy import Policy

ONNX_FILE = "policy.onnx"
OPSETS = range(18, 24)
"""Opset versions that can be asked for; PyTorch's exporter writes 18, and converts to others."""


def export_onnx(
    policy: Policy,
    folder: str | os.PathLike[str],
    opset: int | None = None,
    recordings: list[Recording] | None = None,
) -> Path:
    """Write `policy.onnx`, weights included, and `policy.onnx.json`, which describes it.

    Inputs and outputs have the names of `policy_graph`, with a dynamic batch, and the dtypes of the
    spaces: images of bytes are bytes. The graph is checked by ONNX, and against the policy by
    onnxruntime before it takes its place, see `verified`.

    Args:
        policy: The policy to export.
        folder: The folder to write to; made if missing.
        opset: Version of the operators, one of `OPSETS`; None: the exporter's own, 18.
        recordings: Observations of an environment, to check the graph on besides sampled ones.

    Returns:
        The file.

    Raises:
        ConfigError: if a library is missing, the policy cannot be exported, or the graph acts
            otherwise than it.
    """
    onnx = _libraries()
    opset = OPSETS.start if opset is None else opset
    if opset not in OPSETS:
        raise ConfigError(
            f"onnx opset = {opset!r} is not supported; allowed: {OPSETS.start} to {OPSETS.stop - 1}"
        )
    traced = TracedGraph(policy)
    versions = {
        "torch": torch.__version__,
        "onnx": onnx.__version__,
        "onnxruntime": _libraries("onnxruntime").__version__,
        "opset": opset,
    }

    def save(path: Path) -> None:
        _convert(traced, opset, path)
        onnx.checker.check_model(str(path), full_check=True)

    return write_program(traced, Path(folder) / ONNX_FILE, save, onnx_program, versions, recordings)


def onnx_program(path: str | os.PathLike[str]) -> Any:
    """Return a graph's file as a function of arrays by name, by onnxruntime.

    Raises:
        ConfigError: if onnxruntime is not installed, or does not take the file.
    """
    runtime = _libraries("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise ConfigError(f"onnxruntime does not take {Path(path).name}: {error}") from error
    names = [output.name for output in session.get_outputs()]

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def _libraries(name: str = "onnx") -> Any:
    """Return a library of the extra `onnx`; all of them must be there.

    Raises:
        ConfigError: naming what is missing.
    """
    from importlib import import_module

    try:
        for needed in ("onnxscript", "onnxruntime") if name == "onnx" else ():
            import_module(needed)
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"ONNX needs the library {error.name!r}, which is not installed: "
            "pip install 'tunescape[onnx]'"
        ) from None


def _convert(traced: TracedGraph, opset: int, path: Path) -> None:
    try:
        with _quiet():
            made = torch.onnx.export(
                traced.program, (traced.example,), dynamo=True, verbose=False, opset_version=opset
            )
            assert made is not None
            graph = made.model.graph
            names = [spec.name for spec in traced.graph.inputs]
            for value, name in zip(graph.inputs, names, strict=True):
                value.name = name
            for value, spec in zip(graph.outputs, traced.outputs, strict=True):
                value.name = spec.name
            made.save(path, external_data=False)
    except Exception as error:  # of the exporter, about operators that ONNX does not have
        raise ConfigError(
            "the policy cannot be written as ONNX; allowed for it: the format torch "
            f"({type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]})"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which reports on itself and on libraries that nobody asked for."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
