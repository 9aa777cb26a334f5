"""What came out of a comparison: frames, and words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    pass


@dataclass
class Comparison:
    """What came out of a comparison: plain frames, and words.

    Attributes:
        metric: What is compared.
        mode: `"max"` or `"min"`: what is better.
        x: What the budget is counted in.
        budget: The shared budget; None where the tasks have different ones.
        threshold: The threshold of the budgets, if one was asked for.
        confidence: The level of the intervals.
        summary: A row per algorithm: `algorithm`, `unit`, `runs` (of each task), `tasks`;
            `iqm`, `mean`, `median` and `area` (the interquartile mean of the areas under
            the curves), each with `…_low` and `…_high`; `seconds` (the median training time
            of a run up to the budget, its share of it where trials shared a process),
            `total_env_steps` and `total_wall_hours`, `total_cpu_hours`, `total_gpu_hours` (of all
            trials of its sweeps, the search among them, as `analysis.cost_frame` counts; NaN if not
            known of all); `chosen_from` and `lost`: see `analysis.comparison.samples.Sample`. With
            a threshold also `reached` (the part of the runs, the lost ones among them),
            `threshold_median` (infinity: most did not) and `threshold_mean` (restricted to the
            budget), with their intervals.
        pairs: A row per pair: see `analysis.comparison.pairs.compare_pairs`.
        runs: A row per run: see `analysis.comparison.shared_budget.runs_frame`.
        curves: A row per algorithm and point: `algorithm`, `share` (of the budget), `budget`,
            `iqm`, `low`, `high` (of each point by itself).
        tasks: A row per task: `task`, `budget`, `low`, `high` (the scores that count as 0
            and 1; NaN where they are as reported).
        lines: The verdict: a sentence per pair.
        notes: How it was done.
        cautions: What is to be kept in mind.
    """

    metric: str
    mode: str
    x: str
    budget: float | None
    threshold: float | None
    confidence: float
    summary: pd.DataFrame
    pairs: pd.DataFrame
    runs: pd.DataFrame
    curves: pd.DataFrame
    tasks: pd.DataFrame
    lines: list[str]
    notes: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The sentences, a line each."""
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as strict JSON: what is not a finite number is null."""
        frames = ("summary", "pairs", "runs", "curves", "tasks")
        document = {
            name: value for name, value in vars(self).items() if name not in (*frames, "lines")
        }
        document["verdict"] = self.lines
        document |= {name: _records(getattr(self, name)) for name in frames}
        return document


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): _plain(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _plain(value: Any) -> Any:
    if value is pd.NA:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
