"""`StoredStates`: states in folders, of which one at a time is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainables.core.checkpoint import load_state, save_state
from trainables.core.config.policy_specs import check_policy_id

LEARNERS = "learners"
"""Where in a checkpoint learners have files of their own, by policy id: where policies are shelved.

Else they are in the checkpoint's own files.
"""
_LEARNER = "learner"


class StoredStates(Mapping[str, dict[str, Any]]):
    """States by policy id, each read when it is asked for.

    Args:
        folders: Where each is, by policy id.
        name: The stem of its files, see `save_state`.
    """

    def __init__(self, folders: Mapping[str, Path], name: str):
        self._folders, self._name = dict(folders), name

    def __getitem__(self, policy_id: str) -> dict[str, Any]:
        return load_state(self._folders[policy_id], self._name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


class StoredWeights(Mapping[str, Any]):
    """The weights of policies by their ids, each read when it is asked for.

    Args:
        policies: The states of policies.
    """

    def __init__(self, policies: Mapping[str, dict[str, Any]]):
        self._policies = policies

    def __getitem__(self, policy_id: str) -> Any:
        return self._policies[policy_id]["weights"]

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)


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


def with_learners(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a checkpoint's state with those of learners that have files of their own.

    Args:
        state: As `write_learners` has left it.
        folder: Of the checkpoint.
    """
    policy_ids = state["learners"].get("learners")
    if not isinstance(policy_ids, list):
        return state
    for policy_id in policy_ids:
        check_policy_id(policy_id, LEARNERS)  # no other place
    states = StoredStates({m: folder / LEARNERS / m for m in policy_ids}, _LEARNER)
    return {**state, "learners": {**state["learners"], "learners": states}}
