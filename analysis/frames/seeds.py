"""The seeds of trials that train several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from analysis.frames.frames import named_trials
from analysis.names import ENV_STEPS, ITERATION
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from analysis.results.records import Source


def seeds_frame(
    results: Source | Sequence[Source], metric: str = "episode_return_mean"
) -> pd.DataFrame:
    """Return the curves of the single seeds, in long form, of trials that train several (`seeds:`).

    Args:
        results: A `ResultGrid`, the path of a sweep folder, or several; see `load_sweeps`.
        metric: An objective of the sweep: only of those the trials report each seed's own value.

    Returns:
        A row per trial, seed and result: `trial_id`, `seed`, `training_iteration`,
        `num_env_steps_sampled_lifetime` (of this seed; NaN where it is not reported) and
        `value`. Seeds that did not report the metric are left out. Of several sweeps the first
        column is `sweep`.

    Raises:
        ResultsError: No trial reported `metric` for each seed.
    """
    frames: list[pd.DataFrame] = []
    found: set[str] = set()
    for head, trial in named_trials(results):
        names = [re.fullmatch(r"seed_(-?\d+)/(.+)", str(name)) for name in trial.frame.columns]
        known = sorted((int(name[1]), name[2]) for name in names if name)
        found.update(name for _, name in known)
        for seed in (seed for seed, name in known if name == metric):
            columns = {
                **head,
                "seed": seed,
                ITERATION: trial.frame[ITERATION],
                ENV_STEPS: trial.frame.get(f"seed_{seed}/{ENV_STEPS}", float("nan")),
                "value": trial.frame[f"seed_{seed}/{metric}"],
            }
            frames.append(pd.DataFrame(columns).dropna(subset=["value"]))
    if not frames:
        others = sorted(found - {ENV_STEPS})
        hint = f"; of each seed they reported {', '.join(others)}" if others else ""
        raise ResultsError(f"no trial trained several seeds and reported {metric!r} of each{hint}")
    return pd.concat(frames, ignore_index=True)
