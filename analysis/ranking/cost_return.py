"""Return against cost: the trials of which no other is as good for less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.frames.cost import cost_frame
from analysis.frames.frames import named_trials
from analysis.names import sign_of
from analysis.ranking.fronts import optimal_rows
from analysis.results.rows import ResultsError
from analysis.results.sources import are_several, load_sweeps

if TYPE_CHECKING:
    from analysis.results.records import Source

COSTS = ("env_steps", "wall_s", "cpu_s", "gpu_s")
"""What a trial may be counted by: see `analysis.cost_frame`."""


def cost_front(
    results: Source | Sequence[Source],
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    cost: str = "env_steps",
    whole: bool = False,
) -> pd.DataFrame:
    """Return the trials of which no other is at least as good at no more cost, and better in one.

    A trial counts with its last finite value and all that it took, if it ended without an error.
    Those that a scheduler stopped early are cheap and may well be on the front: the front says what
    could be had for how much, with luck, not what would come out again.

    Args:
        results: A `ResultGrid`, the path of a sweep folder, or several: then the front is that of
            all their trials together.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`: of the metric; less cost is better.
        cost: One of `COSTS`.
        whole: Keep the other trials that count, too.

    Returns:
        A frame with (of several sweeps) `sweep`, `trial_id`, `optimal`, the metric,
        `env_steps`, `wall_s`, `cpu_s` and `gpu_s`: the optimal trials first, each part from
        the cheapest on. `attrs` holds `metric`, `mode` and `cost`.

    Raises:
        ResultsError: A source holds no sweep, no trial reported the metric, the cost is unknown, or
            no trial has it.
    """
    sign = sign_of(mode)
    if cost not in COSTS:
        raise ResultsError(f"cost must be one of {', '.join(COSTS)}, not {cost!r}")
    sweeps = load_sweeps(results)
    given = sweeps if are_several(results) else sweeps[0]
    if not any(metric in trial.frame for sweep in sweeps for trial in sweep.trials):
        sweeps[0].require_metric(metric)
    rows = []
    for head, trial in named_trials(given):
        last = trial.last(metric) if trial.status == "TERMINATED" else None
        rows.append({**head, metric: float("nan") if last is None else last})
    frame = pd.DataFrame(rows)
    costs = cost_frame(given)  # the same trials in the same order
    frame = pd.concat([frame, costs[list(COSTS)]], axis=1)
    frame = frame[frame[metric].notna() & frame[cost].notna()].reset_index(drop=True)
    if frame.empty:
        raise ResultsError(f"no trial ended with a value of {metric!r} and known {cost}")
    both = np.stack([sign * frame[metric].to_numpy(), -frame[cost].to_numpy()], axis=1)
    frame.insert(list(frame).index("trial_id") + 1, "optimal", optimal_rows(both))
    frame = frame.sort_values(["optimal", cost], ascending=[False, True], kind="stable")
    if not whole:
        frame = frame[frame["optimal"]]
    frame = frame.reset_index(drop=True)
    frame.attrs.update(metric=metric, mode=mode, cost=cost)
    return frame
