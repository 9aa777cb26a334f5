"""What a report shows of one sweep, each thing computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.curves.run_curves import trial_seeds
from analysis.frames.frames import trials_frame
from analysis.importance.effects import effects_frame, level_label
from analysis.importance.importance import (
    importance_frame,
    interactions_frame,
    partial_dependence_frame,
)
from analysis.importance.surrogate import Surrogate, fit_surrogate
from analysis.names import (
    ENV_STEPS,
    EVALUATION,
    ITERATION,
    SECONDS,
    TRAINED,
    finite,
    returns_of_policies,
    sign_of,
)
from analysis.overview.best_pictures import BEST_PICTURES, BestPicture
from analysis.overview.lineage import Exploit, read_lineage
from analysis.ranking.agreement import agreement_frame, judged_estimates
from analysis.ranking.fronts import pareto_front
from analysis.ranking.leaderboard import Score, leaderboard, ranked
from analysis.results.failures import Failure, failures
from analysis.results.load import load_sweep
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError, flatten, read_json
from analysis.results.schedulers import compares_settings, section
from analysis.results.spec_file import read_spec_file

DEFAULT_METRIC = "episode_return_mean"
_TOP_SETTINGS = 6


class ReportData:
    """One sweep as its report needs it.

    Attributes:
        sweep: Its records.
        folder: Its folder.
        name: Its name.
        spec: The content of its `spec.yaml`; empty where there is none.
        metric: What trials are judged by.
        mode: `"max"` or `"min"`.
        sign: 1 for `"max"`, -1 for `"min"`.
    """

    def __init__(self, source: Any, metric: str | None = None, mode: str | None = None) -> None:
        """Read a sweep.

        Args:
            source: What `load_sweep` takes.
            metric: What trials are judged by; by default the spec's objective.
            mode: `"max"` or `"min"`; by default that of the spec's objective.

        Raises:
            ResultsError: There is no such sweep, or `mode` is unknown.
        """
        self.sweep: Sweep = load_sweep(source)
        self.folder: Path = self.sweep.path
        self.name: str = self.sweep.name
        self.spec: dict[str, Any] = read_spec_file(self.folder)
        objective = self.spec.get("objective") or {}
        same = metric is None or metric == objective.get("metric")
        self.metric: str = metric or objective.get("metric") or DEFAULT_METRIC
        self.mode: str = mode or (objective.get("mode") if same else None) or "max"
        self.sign: float = sign_of(self.mode)
        self._dependence: dict[tuple[str, ...], pd.DataFrame | str] = {}
        self._values_at: dict[float, pd.DataFrame] = {}

    @cached_property
    def objectives(self) -> list[tuple[str, str]]:
        """Metric and mode of each objective: one, or several where the spec has them."""
        several = self.spec.get("objectives") or []
        if len(several) > 1:
            return [(o["metric"], o.get("mode", "max")) for o in several]
        return [(self.metric, self.mode)]

    @cached_property
    def scheduler(self) -> dict[str, Any]:
        """The spec's scheduler; `{"algorithm": "fifo"}` by default."""
        return section(self.spec.get("scheduler"), "fifo")

    @cached_property
    def search(self) -> dict[str, Any]:
        """The spec's search; `{"algorithm": "random"}` by default."""
        return section(self.spec.get("search"), "random")

    @cached_property
    def reported(self) -> bool:
        """Whether some trial reported the metric."""
        return any(self.metric in trial.frame.columns for trial in self.sweep.trials)

    @cached_property
    def ranked(self) -> list[tuple[TrialRecord, Score]]:
        """All trials, best first."""
        if not self.reported:
            return [(t, Score(t, self.metric, self.sign)) for t in self.sweep.trials]
        return ranked(self.sweep, self.metric, self.mode)

    @cached_property
    def scores(self) -> dict[str, Score]:
        """The score of each trial by its id."""
        return {trial.trial_id: score for trial, score in self.ranked}

    @cached_property
    def winner(self) -> TrialRecord | None:
        """The first trial of the leaderboard, if any has a finite value."""
        return next((trial for trial, score in self.ranked if score.found), None)

    @cached_property
    def finished(self) -> list[TrialRecord]:
        """Trials that ended well, those that a scheduler stopped early among them."""
        return [trial for trial in self.sweep.trials if trial.status == "TERMINATED"]

    @cached_property
    def stopped_early(self) -> dict[str, float]:
        """The steps, by trial, of those that ended below the sweep's limit of them.

        Trials that met another of the spec's `stop` conditions are not among them.
        """
        stop = self.spec.get("stop") or {}
        limit = stop.get(self.steps)
        bounds = {name: bound for name, bound in stop.items() if isinstance(bound, int | float)}
        others = {name: bound for name, bound in bounds.items() if name != self.steps}
        found = {}
        for trial in self.finished:
            taken = trial.last(self.steps)
            if limit and taken is not None and taken < limit and not _met(trial, others):
                found[trial.trial_id] = taken
        return found

    @cached_property
    def failed(self) -> list[TrialRecord]:
        """Trials that ended with an error."""
        return [trial for trial in self.sweep.trials if trial.status == "ERROR"]

    @cached_property
    def running(self) -> list[TrialRecord]:
        """Trials that have not ended, or were cut off."""
        ended = ("TERMINATED", "ERROR")
        return [trial for trial in self.sweep.trials if trial.status not in ended]

    @cached_property
    def leaderboard(self) -> pd.DataFrame:
        """The whole leaderboard; empty if no trial reported the metric."""
        if not self.reported:
            return pd.DataFrame()
        return leaderboard(self.sweep, self.metric, self.mode)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """`trials_frame` of the sweep."""
        return trials_frame(self.sweep)

    @cached_property
    def settings(self) -> list[str]:
        """Names of the settings that vary, as `model/fcnet_activation`."""
        return [str(name).removeprefix("config/") for name in self.trials.attrs["varying"]]

    @cached_property
    def values(self) -> pd.DataFrame:
        """The trials with a finite value, best first: id, value, status, steps, each setting."""
        rows = []
        for trial, score in self.ranked:
            if not score.found:
                continue
            flat = flatten(trial.config)
            steps = trial.last(self.steps)
            row = {
                "trial_id": trial.trial_id,
                "value": score.last,
                "status": trial.status,
                "env_steps": np.nan if steps is None else steps,
            }
            row.update({name: _shown(flat.get(name)) for name in self.settings})
            rows.append(row)
        columns = ["trial_id", "value", "status", "env_steps", *self.settings]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def numeric(self) -> set[str]:
        """Settings whose values are numbers."""
        return {name for name in self.settings if _all_numbers(self.values[name])}

    @cached_property
    def axes(self) -> list[str]:
        """The x axes that there are: steps, seconds, iterations."""
        return [axis for axis in (self.steps, SECONDS, ITERATION) if axis in self._columns]

    @property
    def steps_axis(self) -> str:
        """The axis of steps; where nobody counted any, that of iterations."""
        return self.steps if self.steps in self.axes or not self.axes else self.axes[-1]

    @cached_property
    def steps(self) -> str:
        """What counts steps: of the environment, or trained on where training steps none."""
        counts_trained = TRAINED in self._columns and ENV_STEPS not in self._columns
        return TRAINED if counts_trained else ENV_STEPS

    @cached_property
    def returns_of_policies(self) -> dict[str, str]:
        """The metrics of several policies' returns by policy id, of what trials are judged by."""
        within = EVALUATION if self.metric.startswith(EVALUATION) else ""
        return returns_of_policies(self._columns, within)

    @cached_property
    def _columns(self) -> set[str]:
        return {str(c) for trial in self.sweep.trials for c in trial.frame.columns}

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds that each trial trains with; none where a trial is a single run."""
        return sorted({s for trial in self.sweep.trials for s in trial_seeds(trial, self.metric)})

    @cached_property
    def lineage(self) -> list[Exploit]:
        """The exploits of a population; none for other sweeps."""
        try:
            return read_lineage(self.folder)
        except ResultsError:
            return []

    @cached_property
    def final(self) -> dict[str, Any] | None:
        """What held-out seeds said (`final.json`), if there was a final."""
        document = read_json(self.folder / "final.json")
        return document if isinstance(document, dict) and "configurations" in document else None

    @cached_property
    def pictures(self) -> dict[BestPicture, bytes]:
        """The pictures of the best policy that the sweep drew, as PNG."""
        found = {picture: picture.read(self.folder) for picture in BEST_PICTURES}
        return {picture: png for picture, png in found.items() if png is not None}

    @cached_property
    def effects(self) -> pd.DataFrame | None:
        """`effects_frame` of the sweep; None where its trials do not compare settings."""
        if not compares_settings(self.spec):
            return None
        try:
            frame = effects_frame(self.sweep, self.metric, self.mode)
        except ResultsError:
            return None
        return None if frame.empty else frame

    @cached_property
    def surrogate(self) -> Surrogate | str:
        """What learned the values from the settings, once for all that is read off it."""
        try:
            return fit_surrogate(self.sweep, self.metric, self.mode)
        except ResultsError as error:
            return str(error)

    @cached_property
    def importance(self) -> pd.DataFrame | str:
        """`importance_frame` of the sweep, or why there is none."""
        return self._judged(importance_frame)

    @cached_property
    def interactions(self) -> pd.DataFrame | str:
        """`interactions_frame` of the sweep, or why there is none."""
        return self._judged(interactions_frame)

    @property
    def explains_nothing(self) -> bool:
        """Whether the settings were seen to explain nothing: their importance is noise."""
        return not isinstance(self.surrogate, str) and self.surrogate.explains_nothing

    @cached_property
    def top_settings(self) -> list[str]:
        """At most six settings: the most important ones, or else the first ones."""
        if isinstance(self.importance, str) or self.explains_nothing:
            return self.settings[:_TOP_SETTINGS]
        return [str(name) for name in self.importance["setting"][:_TOP_SETTINGS]]

    def partial_dependence(self, settings: tuple[str, ...]) -> pd.DataFrame | str:
        """Return `partial_dependence_frame` of one or two settings, or why there is none."""
        if settings not in self._dependence:
            self._dependence[settings] = self._judged(partial_dependence_frame, list(settings))
        return self._dependence[settings]

    def values_of(self, dependence: pd.DataFrame | None) -> tuple[pd.DataFrame, float | None]:
        """Return `values` as a partial dependence counts them, and at which budget that is.

        Where a scheduler stopped trials early that is the budget which all of them reached; else
        None: each counts with its last value.
        """
        budget = None if dependence is None else dependence.attrs.get("at_budget")
        if budget is None:
            return self.values, None
        if budget not in self._values_at:
            frames = {trial.trial_id: trial.frame for trial in self.sweep.trials}
            found = [value_at(frames[t], self.metric, budget) for t in self.values["trial_id"]]
            self._values_at[budget] = self.values.assign(value=found).dropna(subset="value")
        return self._values_at[budget], float(budget)

    def _judged(self, read: Callable[..., pd.DataFrame], *arguments: Any) -> pd.DataFrame | str:
        if isinstance(self.surrogate, str):
            return self.surrogate
        try:
            return read(self.surrogate, *arguments)
        except ResultsError as error:
            return str(error)

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Where the sweep ran (`environment.json`); empty if it was not recorded."""
        document = read_json(self.folder / "environment.json")
        return document if isinstance(document, dict) else {}

    @cached_property
    def failures(self) -> list[Failure]:
        """The trials that failed, with their causes."""
        return failures(self.sweep)

    @cached_property
    def pareto(self) -> pd.DataFrame | None:
        """All trials with the front marked: of the objectives, or of the metric against seconds."""
        objectives = self.objectives
        if len(objectives) == 1:
            objectives = [*objectives, (SECONDS, "min")]
        try:
            frame = pareto_front(self.sweep, objectives, whole=True)
        except ResultsError:
            return None
        return None if frame.empty else frame

    @cached_property
    def agreements(self) -> dict[str, pd.DataFrame | str]:
        """How well each off-policy estimator ranked the trials, by name; or why none can tell."""
        found: dict[str, pd.DataFrame | str] = {}
        for name, estimate in judged_estimates(self.sweep).items():
            try:
                found[name] = agreement_frame(self.sweep, estimate)
            except ResultsError as error:
                found[name] = f"{error}."
        return found


def value_at(frame: pd.DataFrame, metric: str, budget: float) -> float:
    """Return the last finite value within a budget of env steps, or of iterations; or NaN."""
    steps, values = finite(frame.get(ENV_STEPS, frame.get(ITERATION))), finite(frame.get(metric))
    rows = values.index.intersection(steps.index[steps.to_numpy() <= budget])
    return float(values[rows[-1]]) if len(rows) else float("nan")


def _met(trial: TrialRecord, stop: dict[str, float]) -> bool:
    """Tell whether a trial's last result meets a condition, as Tune judges it: at least."""
    ends = {name: trial.last(name) for name in stop}
    return any(end is not None and end >= stop[name] for name, end in ends.items())


def _shown(value: Any) -> Any:
    """Return a setting's value as a cell: numbers and text as they are, others as JSON."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return level_label(value)


def _all_numbers(values: Sequence[Any] | pd.Series) -> bool:
    known = [value for value in values if value is not None and value == value]
    return bool(known) and all(
        isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in known
    )
