"""`Best`: the policy that pictures are of, and what its checkpoint says of its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from experiments.seeds.hosts import seed_folder
from experiments.seeds.multi_seed import MEDIAN_SEED, STATE_FILE
from trainables.core.checkpoint import CHECKPOINT_FILE, CheckpointError, load_state


class Best(NamedTuple):
    """The best policy of a sweep.

    Attributes:
        checkpoint: The trial's that it was exported from: of a run, or with a folder for each seed.
        policy: Its own folder, or that of a folder for each of several policies.
    """

    checkpoint: Path
    policy: Path


def states_of_seeds(checkpoint: Path) -> list[dict[str, Any]]:
    """Return the state of a checkpoint's run, or that of each seed's.

    Of a trainable of one's own, which writes what it likes, there is none.
    """
    is_one = (checkpoint / CHECKPOINT_FILE).is_file()
    runs = [checkpoint] if is_one else sorted(checkpoint.glob("seed_*"))
    try:
        return [load_state(run, Path(CHECKPOINT_FILE).stem) for run in runs]
    except CheckpointError:
        return []


def state_of_policy(checkpoint: Path) -> dict[str, Any] | None:
    """Return the state of the run that a checkpoint's policies are of: of seeds the median one's.

    Returns:
        None of a trainable of one's own.
    """
    folder = checkpoint
    try:
        if (checkpoint / STATE_FILE).is_file():
            seeds = load_state(checkpoint, Path(STATE_FILE).stem)
            folder = seed_folder(checkpoint, seeds[MEDIAN_SEED])
        return load_state(folder, Path(CHECKPOINT_FILE).stem)
    except (CheckpointError, LookupError):
        return None
