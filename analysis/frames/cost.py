"""What each trial cost: environment steps, seconds, and CPU and GPU seconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.frames.frames import named_trials
from analysis.names import ENV_STEPS
from analysis.results.records import TrialRecord

if TYPE_CHECKING:
    from analysis.results.records import Source

_COLUMNS = ("env_steps", "wall_s", "cpu_s", "gpu_s")
_OF_A_SEED = re.compile(rf"seed_-?\d+/{ENV_STEPS}")


def cost_frame(results: Source | Sequence[Source]) -> pd.DataFrame:
    """Return what the training of each trial's final weights took.

    CPU and GPU seconds are what was held, not what was used: the CPUs and GPUs of all the trial's
    bundles times its seconds, result by result, for a scheduler may give a trial more on the way.
    Our algorithms report them (`num_cpus`, `num_gpus`); of another trainable they are known
    only from a `ResultGrid`. What is not known is NaN. Trials that shared a process (`host` in
    `trials_frame`) share out its seconds: while n of them train, each has 1/n.

    Seconds are those of the trial's own clock, `time_total_s`: setting up, and waiting for a
    place, do not count. What a kill lost does not count either. Under PBT a trial that went on from
    a donor's checkpoint has the donor's clock and steps from there on: the frame says what it took
    to train these weights, and the sum over the trials is not what the sweep took.

    Args:
        results: A `ResultGrid`, the path of a sweep folder, or several; see `load_sweeps`.

    Returns:
        One row per trial: `trial_id`, `env_steps` (of all its seeds together), `wall_s`,
        `cpu_s` and `gpu_s` (seconds times how many). Of several sweeps the first column is
        `sweep`. A trial without a result cost nothing.

    Raises:
        ResultsError: A source holds no sweep.
    """
    rows = [{**head, **_cost(trial)} for head, trial in named_trials(results)]
    return pd.DataFrame(rows).astype(dict.fromkeys(_COLUMNS, float))


def _cost(trial: TrialRecord) -> dict[str, float]:
    if not len(trial.frame):
        return dict.fromkeys(_COLUMNS, 0.0)
    seconds = trial.seconds().to_numpy()
    spans = np.diff(seconds, prepend=0.0)
    held = {name: _held(trial, name) for name in ("cpu", "gpu")}
    return {
        "env_steps": _env_steps(trial),
        "wall_s": float(seconds[-1]),
        **{f"{name}_s": float(np.sum(count * spans)) for name, count in held.items()},
    }


def _env_steps(trial: TrialRecord) -> float:
    seeds = [str(name) for name in trial.frame.columns if _OF_A_SEED.fullmatch(str(name))]
    return float(sum(_column(trial, name)[-1] for name in seeds or [ENV_STEPS]))


def _held(trial: TrialRecord, name: str) -> np.ndarray:
    """Return how many CPUs or GPUs the trial held during each result; NaN where unknown."""
    if f"num_{name}s" in trial.frame:
        return _column(trial, f"num_{name}s")
    known = trial.held.get(name.upper(), 0.0) if trial.held else np.nan
    return np.full(len(trial.frame), known)


def _column(trial: TrialRecord, name: str) -> np.ndarray:
    if name not in trial.frame:
        return np.full(len(trial.frame), np.nan)
    return pd.to_numeric(trial.frame[name], errors="coerce").to_numpy(dtype=float)
