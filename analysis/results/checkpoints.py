"""A trial's checkpoint folders, and the result that was reported when each was taken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.names import ENV_STEPS, ITERATION
from analysis.results.rows import read_json

POLICY = Path("policies", "default_policy")
"""Where a checkpoint keeps the exported policy; each of several has a folder of its id there."""


JOURNAL = "checkpoints.jsonl"
"""In a trial's folder: a line for each checkpoint when it was made, with its result."""

# What our algorithms write into a checkpoint; of several seeds, and the policy by itself.
_OURS = (str(POLICY / "policy.json"), "checkpoint.json", "seeds.json")


def policy_folders(checkpoint: Path) -> dict[str, Path]:
    """Return the folders of a checkpoint's policies, by policy id."""
    files = sorted((checkpoint / POLICY.parent).glob("*/policy.json"))
    return {file.parent.name: file.parent for file in files}


def is_of_policy(checkpoint: Path) -> bool:
    """Tell whether a checkpoint is of a trainable with policies; one of one's own may have none."""
    return any((checkpoint / name).exists() for name in _OURS)


@dataclass(frozen=True)
class CheckpointRecord:
    """A checkpoint folder that exists, and the result that was reported when it was taken."""

    path: Path
    metrics: dict[str, Any]


def find_checkpoints(
    folder: Path, frame: pd.DataFrame, told: Mapping[str, dict[str, Any]]
) -> tuple[list[CheckpointRecord], list[Path]]:
    """Return the checkpoints of a trial that are there, oldest first.

    Args:
        folder: The trial's.
        frame: Its results.
        told: Results by folder name, as far as Tune told them: it also knows those of trainables
            whose checkpoints do not say at which iteration they were taken.

    Returns:
        Those whose result is known, and the folders of the others.
    """
    placed, unplaced = [], []
    noted: dict[str, int] | None = None
    for path in sorted(p for p in folder.glob("checkpoint_*") if p.is_dir()):
        metrics = told.get(path.name) or _row_of_checkpoint(path, frame)
        if metrics is None:
            noted = _noted_iterations(folder) if noted is None else noted
            metrics = _row_at(frame, ITERATION, noted.get(path.name))
        if metrics is None:
            unplaced.append(path)
        else:
            placed.append(CheckpointRecord(path, metrics))
    return placed, unplaced


def _row_of_checkpoint(path: Path, frame: pd.DataFrame) -> dict[str, Any] | None:
    """Return the row reported when a checkpoint was taken, by what it says of itself."""
    # A trial of several seeds keeps its own state in seeds.json, and its seeds' in subfolders.
    state = read_json(path / "checkpoint.json") or read_json(path / "seeds.json")
    iteration = _at(state, "state", "counters", "iteration")
    folder = next(iter(policy_folders(path).values()), path / POLICY)
    policy = read_json(folder / "policy.json")
    env_steps = _at(policy, "state", "metadata", ENV_STEPS)
    by_iteration = _row_at(frame, ITERATION, iteration)
    return _row_at(frame, ENV_STEPS, env_steps) if by_iteration is None else by_iteration


def _row_at(frame: pd.DataFrame, key: str, value: int | None) -> dict[str, Any] | None:
    if value is None or key not in frame:
        return None
    rows = frame[frame[key] == value]
    if not len(rows):
        return None
    row = rows.iloc[-1]
    return {str(name): row[name] for name in frame.columns}


def _noted_iterations(folder: Path) -> dict[str, int]:
    """Return the iterations of a trial's checkpoints that the sweep noted when they were made."""
    found: dict[str, int] = {}
    try:
        lines = (folder / JOURNAL).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return found
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # a kill cut it short
            continue
        iteration = _at(entry, "result", ITERATION)
        if iteration is not None and isinstance(entry.get("checkpoint"), str):
            found[entry["checkpoint"]] = iteration
    return found


def _at(document: Any, *keys: str) -> int | None:
    """Return the whole number at a path of keys in a JSON document; None where there is none."""
    for key in keys:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document if isinstance(document, int) and not isinstance(document, bool) else None
