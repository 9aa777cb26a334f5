"""States of policies and learners in files of their own, of which one at a time is in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainables.core.checkpoint import load_state, policy_folder, save_state
from trainables.core.config.agents.policy_specs import check_policy_id
from trainables.core.data.lazy_mapping import LazyMapping

LEARNERS = "learners"
"""Where in a checkpoint learners have files of their own, by policy id: where policies are shelved.

Else they are in the checkpoint's own files.
"""
_LEARNER = "learner"


def stored_states(folders: Mapping[str, Path], name: str) -> LazyMapping[dict[str, Any]]:
    """Return states by policy id, each read when it is asked for.

    Args:
        folders: Where each is, by policy id.
        name: The stem of its files, see `save_state`.
    """
    return LazyMapping(folders, lambda policy_id: load_state(folders[policy_id], name))


def in_one_piece(state: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's state with those of all learners in memory.

    Args:
        state: See `Algorithm.state_besides_policies`.
    """
    learners = state["learners"]
    if "learners" not in learners:
        return state
    return {**state, "learners": {**learners, "learners": dict(learners["learners"])}}


def write_learners(folder: Path, state: dict[str, Any]) -> list[Path]:
    """Write the states of learners, one after the other, if they are not in memory.

    In the checkpoint's own state there are their ids instead.

    Args:
        folder: Of the checkpoint.
        state: See `Algorithm.state_besides_policies`; it is changed.

    Returns:
        The files.
    """
    states = state["learners"].get("learners")
    if not isinstance(states, Mapping) or isinstance(states, dict):
        return []
    files: list[Path] = []
    for policy_id, own in states.items():
        path = folder / LEARNERS / policy_id
        save_state(path, _LEARNER, own)
        files += [path / f"{_LEARNER}.json", path / f"{_LEARNER}.safetensors"]
    state["learners"] = {**state["learners"], "learners": [*states]}
    return files


def with_parts_of_policies(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a checkpoint's state with its policies, and learners that have files of their own.

    Where learners have, policies are read one by one, too; else all are, at once.

    Args:
        state: As `write_learners` has left it, with the ids of the policies.
        folder: Of the checkpoint.
    """
    policies = stored_states({m: policy_folder(folder, m) for m in state["policies"]}, "policy")
    policy_ids = state["learners"].get("learners")
    if not isinstance(policy_ids, list):
        return {**state, "policies": dict(policies)}
    for policy_id in policy_ids:
        check_policy_id(policy_id, LEARNERS)  # no other place
    states = stored_states({m: folder / LEARNERS / m for m in policy_ids}, _LEARNER)
    learners = {**state["learners"], "learners": states}
    return {**state, "policies": policies, "learners": learners}
