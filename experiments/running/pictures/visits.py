"""Where the best policy of a sweep has been in training, drawn: of small grids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from experiments.running.pictures.source import Best, states_of_seeds
from trainables.core.checkpoint import CheckpointError, load_state

_COUNTS = "visits.counts"


def draw_visits_of_best(best: Best, out: Path) -> Path | None:
    """Draw how often a policy's training has been in each cell of its grid.

    Args:
        best: The policy, whose learner has counted: with rewards for what is new.
        out: The picture.

    Returns:
        The picture; None where nothing was counted, or the environment is no grid.
    """
    try:
        counts = _counts_of(best.checkpoint)
        if counts is None:
            return None
        metadata = load_state(best.policy, "policy")["metadata"]
    except (CheckpointError, LookupError, TypeError, AttributeError):  # of a trainable of one's own
        return None
    grid = _grid_of(metadata["env"], metadata["env_config"])
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
    found = []
    for state in states_of_seeds(checkpoint):
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
