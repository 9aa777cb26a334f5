"""The JSON file beside an exported graph, which says what it takes and gives."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.checkpoint import CheckpointError
from trainables.core.data.space_json import space_to_json
from trainables.core.export.policy_graph import PolicyGraph, TensorSpec
from trainables.core.policy.policy import Policy

FORMAT_VERSION = 1
_KIND = "tunescape policy graph"
_EPISODE_START = "zeros in every state, and 0 as prev_reward, begin an episode"


def graph_description(
    policy: Policy,
    graph: PolicyGraph,
    outputs: Sequence[TensorSpec],
    report: dict[str, Any],
    versions: dict[str, Any],
) -> dict[str, Any]:
    """Return the content of the JSON file.

    Args:
        policy: The policy that was exported.
        graph: The policy's graph.
        outputs: The graph's outputs in order.
        report: The result of `verified`.
        versions: Versions of the libraries that made the file, by name.
    """
    # What connectors make of a mask only they know; see `ExportedPolicy`.
    is_raw = policy.env_to_module is None and policy.module_to_env is None
    return {
        "kind": _KIND,
        "format_version": FORMAT_VERSION,
        "inputs": [asdict(spec) for spec in graph.inputs],
        "outputs": [asdict(spec) for spec in outputs],
        "states": graph.state_pairs,
        "episode_start": _EPISODE_START,
        "batch_axis": 0,
        "actions": "greedy: the mode of the distribution, for the environment as they are",
        "action_mask": policy.observations.mask_path if is_raw else None,
        "observation_space": space_to_json(policy.observation_space),
        "action_space": space_to_json(policy.action_space),
        "metadata": _metadata(policy.metadata),
        "versions": {"numpy": np.__version__, "tunescape": _version(), **versions},
        "verified": report,
    }


def description_file(path: Path) -> Path:
    """Return the JSON file of a graph's file."""
    return path.with_name(f"{path.name}.json")


def write_description(path: Path, description: dict[str, Any], made: Path) -> None:
    """Put a graph's file in its place, and what describes it beside it.

    Args:
        path: The graph's file.
        description: The content of the JSON file.
        made: The place where the graph's file lies so far.
    """
    target = description_file(path)
    target.unlink(missing_ok=True)  # until both are there, there is none
    os.replace(made, path)
    work = target.with_name(f".new-{target.name}")
    work.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    os.replace(work, target)


def read_description(path: Path) -> dict[str, Any]:
    """Return the description of a graph's file.

    Raises:
        CheckpointError: if it is missing, damaged or of an unknown format.
    """
    file = description_file(path)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"exported policy {path}: {file.name} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"exported policy {path}: {file.name} is damaged: {error}") from None
    if not isinstance(found, dict) or found.get("kind") != _KIND:
        raise CheckpointError(f"exported policy {path}: {file.name} describes no policy's graph")
    version = found.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:  # 1.0 and true equal 1
        raise CheckpointError(
            f"exported policy {path}: format version {version!r} is unknown; "
            f"known: {FORMAT_VERSION}"
        )
    return found


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON holds of a policy's metadata.

    An environment whose settings are left out would be another one: it is left out with them.
    """
    kept = {name: value for name, value in metadata.items() if _is_json(value)}
    if len(kept) < len(metadata) and "env_config" not in kept:
        kept.pop("env", None)
    return kept


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _version() -> str | None:
    try:
        return metadata.version("tunescape")
    except metadata.PackageNotFoundError:
        return None
