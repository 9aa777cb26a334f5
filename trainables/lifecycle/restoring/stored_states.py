"""Stored states of policies and learners, of which one at a time is in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainables.core.checkpoint import load_state, policy_folder
from trainables.core.data.stored import LazyMapping
from trainables.core.features import feature
from trainables.lifecycle.checkpoints import LEARNER, LEARNERS


def stored_states(folders: Mapping[str, Path], name: str) -> LazyMapping[dict[str, Any]]:
    """Return states by policy id, each read when it is asked for.

    Args:
        folders: Where each is, by policy id.
        name: The stem of its files, see `save_state`.
    """
    return LazyMapping(folders, lambda policy_id: load_state(folders[policy_id], name))


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
        feature("agents").check_policy_id(policy_id, LEARNERS)  # no other place
    states = stored_states({m: folder / LEARNERS / m for m in policy_ids}, LEARNER)
    learners = {**state["learners"], "learners": states}
    return {**state, "policies": policies, "learners": learners}
