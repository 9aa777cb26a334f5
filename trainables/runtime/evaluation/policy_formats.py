"""A policy's folder as a graph that runs without this project, checked in its own environment."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError
from trainables.core.export.graph_observations import Recording
from trainables.core.export.onnx_program import export_onnx
from trainables.core.export.torch_program import export_torch_program
from trainables.core.policy.policy import Policy
from trainables.core.trust import refuse
from trainables.runtime.envs.trust import environment_doubts
from trainables.runtime.evaluation.recording import recorded

FORMATS = ("torch", "onnx")


def write_graph(
    policy_folder: Path,
    target: Path,
    format: str,
    *,
    opset: int | None = None,
    trust: Collection[str] = (),
) -> Path:
    """Write `model.pt2` or `policy.onnx` of an exported policy, and the JSON file beside it.

    The graph is compared with the policy on observations from its space, and from its environment
    where that can be made without code that the folder names; a warning says where it cannot.

    Args:
        policy_folder: See `Policy.load`.
        target: A folder, made if missing.
        format: One of `FORMATS`.
        opset: Of ONNX.
        trust: Code that the policy names and that may be imported: connectors, a custom model, the
            environment.

    Returns:
        The file.

    Raises:
        ConfigError: if the policy is damaged, names code that is not trusted or cannot be exported,
            a library is missing, or the graph acts otherwise than the policy.
    """
    if format not in FORMATS:
        raise ConfigError(f"format = {format!r} is unknown; known: {', '.join(FORMATS)}")
    if opset is not None and format != "onnx":
        raise ConfigError(f"opset = {opset} has no effect on the format {format!r}; allowed: None")
    policy = Policy.load(policy_folder, trust=trust)
    recordings = _recordings(policy, trust)
    if format == "onnx":
        return export_onnx(policy, target, opset, recordings)
    return export_torch_program(policy, target, recordings)


def _recordings(policy: Policy, trust: Collection[str]) -> list[Recording]:
    """Of the policy's environment, if that can be made."""
    env: Any = policy.metadata.get("env")
    if not env:
        return []
    try:
        refuse(environment_doubts(policy.metadata), trust, "its policy")
        return [recorded(policy, env, policy.metadata.get("env_config"))]
    except CheckpointError as error:
        why = str(error)
    except Exception as error:  # an environment is anybody's code
        why = f"{type(error).__name__}: {error}"
    warnings.warn(
        f"the exported graph is compared on sampled observations alone, not on those of {env!r}: "
        f"{why}",
        stacklevel=3,
    )
    return []
