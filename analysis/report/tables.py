"""The tables of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.comparison.outcome import Comparison
from analysis.names import ENV_STEPS, SECONDS, finite, metric_label, setting_label
from analysis.numbers import NONE, duration, is_number, listed, number, steps
from analysis.overview.groups import Group
from analysis.overview.overview import ReportData
from analysis.report.words import beside_estimate, is_estimate, last_interval
from analysis.results.records import TrialRecord
from analysis.results.rows import flatten

MAX_ROWS = 200
"""A page with more rows helps nobody: the frame has them all."""
_MOST_POLICIES = 6
"""Columns of policies."""


@dataclass(frozen=True)
class Cell:
    """One cell: its text, what it is sorted by, and an anchor that it leads to."""

    text: str
    order: float | None = None
    anchor: str = ""


@dataclass
class Table:
    """A table.

    Attributes:
        columns: The heads; numbers stand right, under heads of which `numeric` says so.
        numeric: Whether each column holds numbers.
        rows: Its rows.
        marked: Indices of rows that stand out.
        top: How many rows are shown before one asks for the rest; 0 for all.
        note: What stands below it.
    """

    columns: list[str]
    numeric: list[bool]
    rows: list[list[Cell]]
    marked: set[int] = field(default_factory=set)
    top: int = 0
    note: str = ""


def leaderboard_table(data: ReportData, top: int, anchors: Mapping[str, str]) -> Table:
    """Return all trials from best to worst, up to `MAX_ROWS`.

    Args:
        data: The sweep.
        top: How many are shown before one asks for the rest.
        anchors: The places of the trials' commands on the page, by id.
    """
    estimated = is_estimate(data.metric)
    judged = bool(data.seeds) or estimated
    beside = {"v_behavior": "Recorded", "effective_sample_size": "Effective episodes"}
    columns = ["#", "Trial", "Value", *(["95 % interval"] if judged else [])]
    policies = list(data.returns_of_policies.items())[:_MOST_POLICIES]
    columns += [*(beside.values() if estimated else []), *(policy for policy, _ in policies)]
    columns += ["Best"]
    counted = "Env steps" if data.steps == ENV_STEPS else "Trained steps"
    hosted = bool(data.sweep.hosts)
    columns += [counted, "Time", "Status", *(["Host"] if hosted else [])]
    columns += map(setting_label, data.settings)
    numeric = [True, False, True, *[True] * judged, *[True] * (2 * estimated)]
    numeric += [True] * len(policies)
    numeric += [True, True, True, False]
    numeric += [*([True] if hosted else []), *(name in data.numeric for name in data.settings)]
    rows = []
    for rank, (trial, score) in enumerate(data.ranked[:MAX_ROWS], start=1):
        spent = trial.last(SECONDS)
        ends = last_interval(trial, data.metric)
        row = [
            _cell(rank if score.found else None),
            _trial(trial.trial_id, anchors),
            _cell(score.last),
            *([_interval(*ends)] if judged else []),
            *(
                _cell(beside_estimate(trial, data.metric, name))
                for name in (beside if estimated else ())
            ),
            *(_cell(trial.last(metric)) for _, metric in policies),
            _cell(score.best),
            _cell(trial.last(data.steps)),
            Cell(duration(spent), spent),
            Cell(_status(trial, data)),
            *([_cell(trial.host)] if hosted else []),
        ]
        flat = flatten(trial.config)
        row += [value_cell(flat.get(name)) for name in data.settings]
        rows.append(row)
    note = (
        "Value: the last value of each trial. Best: the best value during training, which favours "
        "long and noisy trials."
    )
    if estimated:
        note += (
            " Value and interval are estimated from recorded episodes. Recorded: the mean return "
            "of these (v_behavior). Effective episodes: the effective sample size of the estimate "
            "(of importance weights)."
        )
    if policies:
        note += f" {listed([policy for policy, _ in policies])}: the return of each policy's agents"
        left_out = len(data.returns_of_policies) - len(policies)
        note += f"; the frame has {left_out} more." if left_out else "."
    if hosted:
        note += " Host: the process that trained the trial last, counted from 0."
    if len(data.ranked) > MAX_ROWS:
        which = f"The best {MAX_ROWS} of {len(data.ranked):,} trials"
        note = f"{which}; `analysis.leaderboard` has all. {note}"
    return Table(columns, numeric, rows, {0} if data.winner else set(), top, note)


def seeds_table(data: ReportData) -> Table | None:
    """Return the winner's last value by seed."""
    if data.winner is None or not data.seeds:
        return None
    rows = []
    for seed in data.seeds:
        values = finite(data.winner.frame.get(f"seed_{seed}/{data.metric}"))
        if len(values):
            best = values.max() if data.mode == "max" else values.min()
            rows.append(
                [_cell(seed, plain=True), _cell(float(values.iloc[-1])), _cell(float(best))]
            )
    return Table(["Seed", "Value", "Best"], [True] * 3, rows)


def groups_table(data: ReportData, runs: list[Group]) -> Table:
    """Return the configurations of a sweep over seeds."""
    names = list(runs[0].settings)
    rows = []
    for run in runs[:MAX_ROWS]:
        scores = list(run.values.values())
        row = [value_cell(run.settings[name]) for name in names]
        row += [
            Cell(
                f"{len(scores)} of {len(scores) + run.lost}" if run.lost else str(len(scores)),
                len(scores),
            ),
            _cell(run.iqm),
            _interval(run.low, run.high),
            _cell(min(scores)),
            _cell(max(scores)),
        ]
        rows.append(row)
    columns = [*map(setting_label, names), "Seeds", "IQM", "95 % interval"]
    columns += ["Worst seed", "Best seed"]
    if data.mode == "min":
        columns[-2:] = ["Lowest seed", "Highest seed"]
    numeric = [*(name in data.numeric for name in names), *[True] * 5]
    return Table(columns, numeric, rows, {0} if len(rows) > 1 else set())


def final_table(data: ReportData) -> Table | None:
    """Return the configurations on held-out seeds."""
    if data.final is None:
        return None
    found = data.final["configurations"]
    names = list(dict.fromkeys(name for row in found for name in row["settings"]))
    rows, marked = [], set()
    for number_, row in enumerate(found):
        if row["trial_id"] == data.final.get("winner"):
            marked.add(number_)
        interval = _interval(row["held_out_low"], row["held_out_high"])
        cells = [Cell(row["trial_id"]), _cell(row["search_last"]), _cell(row["held_out_iqm"])]
        cells += [interval, _cell(row["optimism"]), _cell(len(row["values"]))]
        rows.append([*cells, *(value_cell(row["settings"].get(name)) for name in names)])
    columns = [
        "Trial",
        "In the search",
        "Held-out IQM",
        "95 % interval",
        "Optimism",
        "Seeds",
        *(setting_label(name.replace(".", "/")) if "." in name else name for name in names),
    ]
    numeric = [False, *[True] * 5, *(name.replace(".", "/") in data.numeric for name in names)]
    note = "Optimism: how much better the search's value is than the one on held-out seeds."
    return Table(columns, numeric, rows, marked, note=note)


def front_table(data: ReportData, anchors: Mapping[str, str]) -> Table | None:
    """Return the Pareto-optimal trials."""
    if data.pareto is None:
        return None
    front = data.pareto[data.pareto["optimal"]].head(MAX_ROWS)
    metrics = [metric for metric, _ in data.pareto.attrs["objectives"]]
    rows = []
    for row in front.to_dict("records"):
        cells = [_trial(str(row["trial_id"]), anchors)]
        for metric in metrics:
            value = float(row[metric])
            cells.append(Cell(duration(value), value) if metric == SECONDS else _cell(value))
        rows.append(cells)
    heads = ["Time" if metric == SECONDS else metric_label(metric) for metric in metrics]
    return Table(["Trial", *heads], [False, *[True] * len(metrics)], rows, top=10)


def comparison_table(found: Comparison) -> Table:
    """Return a row for each sweep or algorithm, the best interquartile mean first."""
    scaled = bool(found.tasks["low"].notna().all())  # of several tasks: then higher is better
    least = found.mode == "min" and not scaled
    frame = found.summary.sort_values("iqm", ascending=least, kind="stable")
    rows = []
    for row in frame.to_dict("records"):
        iqm, seconds, taken = (_cell(row[key]) for key in ("iqm", "seconds", "total_env_steps"))
        rows.append(
            [
                Cell(str(row["algorithm"])),
                iqm,
                replace(iqm, text=f"{number(row['iqm_low'])} to {number(row['iqm_high'])}"),
                _cell(row["runs"]),
                replace(seconds, text=duration(row["seconds"])),
                replace(taken, text=steps(row["total_env_steps"])),
            ]
        )
    what = f"{'normalised ' if scaled else ''}{metric_label(found.metric)}"
    heads = ["Sweep", f"IQM of the {what}", "95 % interval", "Runs"]
    heads += ["Time of a run", "Env steps of the sweep"]
    return Table(heads, [False, *[True] * 5], rows)


def value_cell(value: Any) -> Cell:
    """Return a setting's value."""
    if value is None or isinstance(value, str):
        return Cell(value or NONE)
    if is_number(value):
        return Cell(f"{float(value):.4g}" if isinstance(value, float) else str(value), float(value))
    from analysis.importance.effects import level_label

    return Cell(level_label(value))


def _trial(name: str, anchors: Mapping[str, str]) -> Cell:
    return Cell(name, None, anchors.get(name, ""))


def _cell(value: Any, *, plain: bool = False) -> Cell:
    known = is_number(value) and math.isfinite(value)
    return Cell(str(value) if plain else number(value), float(value) if known else None)


def _interval(low: float | None, high: float | None) -> Cell:
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return Cell(NONE)
    return Cell(f"{number(low)} to {number(high)}", low)


def _status(trial: TrialRecord, data: ReportData) -> str:
    if trial.status == "TERMINATED":
        return "stopped early" if trial.trial_id in data.stopped_early else "finished"
    words = {"ERROR": "failed", "RUNNING": "running or interrupted", "PENDING": "not begun"}
    return words.get(trial.status, trial.status.lower())
