"""What a run is in a comparison: by which runs a contender is judged, so that it is fair.

The best trial of a sweep says as much of the luck of its search as of the algorithm: of many noisy
values it is the best. So a contender is judged by the first of these that there is:

- `held-out`: the runs of its final's winner, on seeds that the search never saw. It is the best
  of a few by these runs;
- `best`: the seeds of its best configuration, which is the best of all by these runs. Where there
  is only one configuration, nothing was chosen;
- `trials`: its configurations as a distribution. This compares how well the algorithms do with
  settings drawn as they were, not how well they do at their best.

`analysis.comparison.pairs` allows for the choice: without it, the more configurations the better.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.comparison.contenders import tasks_of
from analysis.curves.run_curves import RunCurve, run_curves
from analysis.names import sign_of
from analysis.ranking.order import Course, of_runs
from analysis.results.load import is_sweep_folder, load_sweep
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError
from analysis.results.searches import learning_search
from analysis.statistics import iqm

HELD_OUT, BEST, TRIALS = "held-out", "best", "trials"
UNITS = ("auto", HELD_OUT, BEST, TRIALS)


@dataclass(frozen=True)
class Sample:
    """The runs by which one contender is judged on one task.

    Attributes:
        unit: `held-out`, `best` or `trials`.
        runs: The curves.
        chosen_from: Among how many configurations these were chosen by their own values; 1 where
            there was no choice.
        lost: Runs that failed, diverged or are not finished, and so are left out.
        started: All runs of these configurations, the lost ones among them.
        missing: How many of what is compared have nothing left: of `trials` configurations, else
            runs.
        learns: The search that chose settings by earlier results, as the spec of the sweep names
            it, where these are its `trials`; else empty.
    """

    unit: str
    runs: tuple[RunCurve, ...]
    chosen_from: int
    lost: int
    started: int
    missing: int = 0
    learns: str = ""


@dataclass
class Configuration:
    """The runs of a sweep that differ in nothing but their seed."""

    runs: list[RunCurve]
    lost: int = 0

    @property
    def started(self) -> int:
        """All of its runs."""
        return len(self.runs) + self.lost

    def place(self, mode: str) -> tuple[float, ...]:
        """Return the lower, the better: who lost some of its runs is behind those who lost less."""
        last = iqm([run.values[-1] for run in self.runs]) if self.runs else 0.0
        courses = [Course(run.values, run.steps, run.steps) for run in self.runs]
        share_lost = self.lost / max(1, self.started)
        return share_lost, -sign_of(mode) * last, *of_runs(courses, mode)


def possible_samples(sweep: Sweep, task: str, metric: str, mode: str, x: str) -> dict[str, Sample]:
    """Return the ways in which a sweep's contender can be judged on a task, the fairest first.

    Args:
        sweep: The sweep; its final lies in its folder.
        task: The environment.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        x: What the budget is counted in.

    Raises:
        ResultsError: Its trials are a population, which is one run as a whole.
    """
    found: dict[str, Sample] = {}
    finals: list[TrialRecord] = []
    for folder in final_folders(sweep):
        finals += tasks_of(load_sweep(folder)).get(task, [])
    finalists = configurations(finals, metric, x)
    searched = configurations(tasks_of(sweep).get(task, []), metric, x)
    for unit, group in ((HELD_OUT, finalists), (BEST, searched)):
        best = _best(group, mode)
        if best is not None:
            runs = tuple(best.runs)
            found[unit] = Sample(unit, runs, len(group), best.lost, best.started, best.lost)
    each = [_together(configuration) for configuration in searched if configuration.runs]
    if len(each) > 1:
        lost = sum(configuration.lost for configuration in searched)
        started = sum(configuration.started for configuration in searched)
        missing = len(searched) - len(each)
        learns = learning_search(sweep.path)
        found[TRIALS] = Sample(TRIALS, tuple(each), 1, lost, started, missing, learns)
    return found


def final_folders(sweep: Sweep) -> list[Path]:
    """Return the sweeps in which the best configurations of a sweep ran again on held-out seeds."""
    return [folder for folder in sorted(sweep.path.glob("final*")) if is_sweep_folder(folder)]


def choose_samples(
    possible: Mapping[str, Mapping[str, Mapping[str, Sample]]], unit: str
) -> dict[str, dict[str, Sample]]:
    """Return the samples of all contenders, of kinds that can be compared.

    Runs of a configuration and configurations are not mixed: their spread is of another kind.

    Args:
        possible: What, by contender and task, `possible_samples` found.
        unit: One of `UNITS`; `auto` takes of each contender the fairest one, but all
            configurations where a contender has no runs of one.

    Raises:
        ResultsError: A contender cannot be judged so; the message says how each could be.
    """
    if unit not in UNITS:
        raise ResultsError(f"unit must be one of {', '.join(UNITS)}, not {unit!r}")
    options = [kinds for tasks in possible.values() for kinds in tasks.values()]
    wanted: tuple[str, ...] = (unit,)
    if unit == "auto":
        single = all(HELD_OUT in kinds or BEST in kinds for kinds in options)
        wanted = (HELD_OUT, BEST) if single else (TRIALS,)
    if not all(any(kind in kinds for kind in wanted) for kinds in options):
        said = "; ".join(
            f"{label}{f' on {task}' if task else ''}: {', '.join(kinds) or 'no finished run'}"
            for label, tasks in possible.items()
            for task, kinds in tasks.items()
        )
        what = "in one way" if unit == "auto" else f"by {unit!r}"
        raise ResultsError(
            f"the contenders cannot all be compared {what}. They have: {said}. "
            "(held-out: a final, `final: {seeds: 10}`; best: seeds of one configuration, a grid "
            "over seed or `seeds:`; trials: several configurations.)"
        )
    return {
        label: {
            task: next(kinds[kind] for kind in wanted if kind in kinds)
            for task, kinds in tasks.items()
        }
        for label, tasks in possible.items()
    }


def configurations(trials: Sequence[TrialRecord], metric: str, x: str) -> list[Configuration]:
    """Return trials grouped by their settings; a seed is none.

    The same settings with the same seed are the same run again, and count once.

    Raises:
        ResultsError: A trial's settings changed on the way, as a population's do.
    """
    groups: dict[str, Configuration] = {}
    seen: set[tuple[str, int | None]] = set()
    for trial in trials:
        if trial.row_configs is not None:
            raise ResultsError(
                f"{trial.path.parent}: its trials are a population and copy from each other, so "
                "they are not independent runs; repeat the whole sweep with several seeds, or "
                "compare its winner's schedule (pbt_replay) or its finals"
            )
        settings = {name: value for name, value in trial.config.items() if name != "seed"}
        key = json.dumps(settings, sort_keys=True, default=str)
        group = groups.setdefault(key, Configuration([]))
        for curve in run_curves(trial, metric, x):
            if (key, curve.seed) in seen and curve.seed is not None:
                continue
            seen.add((key, curve.seed))
            if trial.status == "TERMINATED" and len(curve.steps) and not curve.diverged:
                group.runs.append(curve)
            else:
                group.lost += 1
    return list(groups.values())


def _best(found: Sequence[Configuration], mode: str) -> Configuration | None:
    """Return the best configuration of several runs, or the only one, of a single run.

    There is none where most configurations have a single run: one that a search happened to draw
    twice is not the best for that.
    """
    least = 1 if len(found) == 1 else 2
    if sum(configuration.started >= least for configuration in found) <= len(found) / 2:
        return None
    several = [configuration for configuration in found if len(configuration.runs) >= least]
    return min(several, key=lambda configuration: configuration.place(mode), default=None)


def _together(configuration: Configuration) -> RunCurve:
    """Return a configuration's curve: the interquartile mean of its runs, while all of them run."""
    runs = configuration.runs
    if len(runs) == 1:
        return runs[0]
    start, end = max(run.steps[0] for run in runs), min(run.end for run in runs)
    grid = np.unique(np.concatenate([run.steps for run in runs]))
    grid = grid[(grid >= start) & (grid <= end)]
    values = np.array([iqm([run.at(step) for run in runs]) for step in grid])
    seconds = np.array([np.mean([run.seconds_at(step) for run in runs]) for step in grid])
    return RunCurve(runs[0].trial_id, None, grid, values, seconds)
