"""Where the best policy of a sweep has been in training, drawn: of small grids."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.checkpoint import CHECKPOINT_FILE, CheckpointError, load_state

logger = logging.getLogger(__name__)

_COUNTS = "visits.counts"


def draw_visits_of_best(checkpoint: Path, policy: Path, out: Path) -> Path | None:
    """Draw how often a policy's training has been in each cell of its grid.

    A picture is not worth a sweep: where the environment is gone it is a warning.

    Args:
        checkpoint: The trial's, whose learner has counted: with rewards for what is new.
        policy: The exported policy's folder.
        out: The picture.

    Returns:
        The picture; None where nothing was counted, or the environment is no grid.
    """
    try:
        counts = _counts_of(checkpoint)
        if counts is None:
            return None
        metadata = load_state(policy, "policy")["metadata"]
    except (
        CheckpointError,
        LookupError,
        TypeError,
        AttributeError,
        OSError,
    ):  # of a trainable of one's own
        return None
    try:
        grid = _grid_of(metadata["env"], metadata["env_config"])
    except Exception as error:  # whatever an environment raises
        logger.warning("no picture of visited states: %s: %s", type(error).__name__, error)
        return None
    if grid is None or len(counts) != np.prod(grid[0]):
        return None
    (rows, columns), letters = grid
    from analysis.plots.visits import plot_visits

    return plot_visits(counts.reshape(rows, columns), out, letters)


def _counts_of(checkpoint: Path) -> np.ndarray | None:
    """Return how often each state was learned from, `[num_states]`, by all seeds of a trial.

    Args:
        checkpoint: Of a run, or with a folder for each seed.

    Returns:
        None if nothing has counted.
    """
    runs = [checkpoint] if (checkpoint / CHECKPOINT_FILE).is_file() else checkpoint.glob("seed_*")
    found = []
    for run in runs:
        state = load_state(run, CHECKPOINT_FILE.removesuffix(".json"))
        of_modules = state["learners"].get("parts", {}).values()
        counted = [parts["curiosity"]["weights"].get(_COUNTS) for parts in of_modules]
        if len(counted) != 1 or counted[0] is None:  # several policies have been elsewhere each
            return None
        found.append(np.asarray(counted[0]))
    return np.sum(found, axis=0) if found else None


def _grid_of(env: Any, env_config: dict[str, Any]) -> tuple[tuple[int, int], list[str]] | None:
    """Return rows and columns of a grid world, and its map; None of another environment."""
    from trainables.runtime.envs.make import resolve_env

    if not isinstance(env, str) or not isinstance(
        found := resolve_env(env), gym.envs.registration.EnvSpec
    ):
        return None
    made = gym.make(found, **env_config)
    try:
        world: Any = made.unwrapped
        if hasattr(world, "desc") and hasattr(world, "nrow"):  # FrozenLake
            return (world.nrow, world.ncol), [
                "".join(c.decode() for c in row) for row in world.desc
            ]
        shape = getattr(world, "shape", None)  # CliffWalking
        if isinstance(shape, tuple) and len(shape) == 2:
            return shape, []
        return None
    finally:
        made.close()
