"""`Checkpoints`: what an algorithm stores: JSON and safetensors, never a pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainables import registry
from trainables.core.checkpoint import CHECKPOINT_FILE, policy_folder, save_state
from trainables.core.features import feature
from trainables.core.logs import logger
from trainables.lifecycle.policies import PolicySet

CHECKPOINT = "checkpoint"
"""The stem of a checkpoint's own files."""
ALGORITHM_CLASS = "algorithm_class"
CONFIG_CLASS = "config_class"
"""Where a checkpoint names classes that are not those of this package."""
LEARNERS = "learners"
"""Where in a checkpoint learners have files of their own, by policy id: where policies are shelved.

Else they are in the checkpoint's own files.
"""
LEARNER = "learner"


class Checkpoints:
    """The state of an algorithm, in memory and on disk.

    Args:
        algorithm: The algorithm.
    """

    def __init__(self, algorithm: Any):
        self._algorithm = algorithm

    def whole_state(self) -> dict[str, Any]:
        """Return everything that an algorithm needs to go on exactly."""
        # First: policies take over what learners have.
        state = in_one_piece(self._algorithm.state_besides_policies())
        policies = self._algorithm.policies
        return {**state, "policies": {m: policy.get_state() for m, policy in policies.items()}}

    def state_besides_policies(self) -> dict[str, Any]:
        """Return what a checkpoint holds besides the policies, each of which has its own folder."""
        algorithm = self._algorithm
        return {
            "algorithm": registry.name_of(type(algorithm)),
            **_named_classes(type(algorithm), type(algorithm.config)),
            "config": algorithm.config.to_dict(),
            "trial_id": algorithm.own_trial_id,
            "seed_entropy": algorithm.seed_entropy,
            "counters": algorithm.counters,
            "episodes": algorithm.episodes.get_state(),
            "callbacks": algorithm.callbacks.get_state(),
            "evaluation": algorithm.evaluation.latest,
            "learners": algorithm.learners.get_state(),
            "env_runners": algorithm.env_runners.get_state(),
            "env_tasks": algorithm.env_runners.tasks,
            "learned": algorithm.get_learned_state(),
            **algorithm.changed_policies,
            **{name: used.get_state() for name, used in algorithm.running_features.items()},
            "learner_connectors": {
                m: connectors.get_state() for m, connectors in algorithm.learner_connectors.items()
            },
        }

    def save(self, folder: Path) -> None:
        """Write JSON and safetensors. `checkpoint.json` comes last: without it there is none."""
        algorithm, policies = self._algorithm, PolicySet(self._algorithm)
        # A checkpoint that is written over is none until the new one is whole.
        (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
        # First: policies take over what learners have.
        state, kept = algorithm.state_besides_policies(), self._kept_policies()
        state["policies"], metadata = sorted(kept), policies.metadata()
        files = write_learners(folder, state)
        for policy_id in kept:
            path = policies.save(policy_id, str(policy_folder(folder, policy_id)), metadata)
            if algorithm.config.export_native_model_files:
                algorithm.export_policy_model(str(path), policy_id, with_env=False)
            files += [file for file in path.iterdir() if file.is_file()]
        save_state(folder, CHECKPOINT, state, files)
        steps = algorithm.num_env_steps_sampled
        logger.info("saved checkpoint %s, after %d env steps", folder, steps)

    def _kept_policies(self) -> list[str]:
        """Return the ids of the policies that checkpoints hold."""
        algorithm = self._algorithm
        if not algorithm.config.checkpoint_trainable_policies_only:
            return [*algorithm.policies]
        kept: list[str] = feature("agents").trained_of(
            algorithm.learner_connectors, algorithm.config.policies_to_train
        )
        return kept


def _named_classes(algorithm: type[Any], config: type) -> dict[str, type]:
    """Return what a checkpoint says of an algorithm's class and its config's: nothing of ours."""
    named = {} if registry.is_ours(algorithm) else {ALGORITHM_CLASS: algorithm}
    own_config = getattr(algorithm, "config_class", None)
    return named if config is own_config else {**named, CONFIG_CLASS: config}


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
        save_state(path, LEARNER, own)
        files += [path / f"{LEARNER}.json", path / f"{LEARNER}.safetensors"]
    state["learners"] = {**state["learners"], "learners": [*states]}
    return files
