"""Optuna under Tune: any of its samplers over a `SearchSpace`."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study, create_study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from analysis.names import ENV_STEPS, ITERATION
from experiments.internals.optuna import copy_notes, handle, move_trial
from experiments.search.searcher import SpaceSearcher
from experiments.trial_info import PRUNED
from search_spaces.define_by_run import suggest
from search_spaces.domains import Choice, Domain, LogRandInt, LogUniform, QUniform, RandInt, Uniform
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from experiments.search.study_storage import StudyCopy

logger = logging.getLogger(__name__)

TRIAL_ID = "trial_id"
"""User attribute of an Optuna trial: Tune's id of it."""
_PARENTS = ":parent:"
"""In a study's attribute that holds the parents of a generation, chosen among the ended trials."""


class OptunaSearch(SpaceSearcher):
    """An Optuna study that suggests Tune's trials.

    The study lives in memory and is saved whole with the sweep, so that a restored one goes on
    exactly as an uninterrupted one would. Spaces with conditions are defined by run: Optuna is
    asked for the active settings only.

    A trial that a scheduler stops early is told to Optuna as pruned, with its intermediate values:
    the sampler then ranks it below every finished one instead of taking its low-budget value for
    a final one. Optuna has no pruning with several objectives: there it is told as failed. So is a
    trial without finite objectives.

    Args:
        space: What is searched.
        metric: The objective, or the first of several.
        mode: "max" or "min".
        sampler: Optuna's sampler; see `experiments.search.samplers`. By default its TPE.
        objectives: Metric and mode of each objective, if there are several.
        stop: Stop criteria; a trial that met none of them was stopped early.
        points: Searched values to try first; what a point lacks is drawn.
        history: Finished trials of earlier sweeps, see `experiments.running.warm_start`.

    Attributes:
        study: The study.
        copy: Where a copy of it is kept (`experiments.search.study_storage`), if anywhere.
    """

    unsaved = ("copy",)
    copy: StudyCopy | None = None

    def __init__(
        self,
        space: SearchSpace,
        *,
        metric: str,
        mode: str,
        sampler: optuna.samplers.BaseSampler | None = None,
        objectives: Sequence[tuple[str, str]] = (),
        stop: Mapping[str, float] | None = None,
        points: Sequence[Mapping[str, Any]] = (),
        history: Sequence[FrozenTrial] = (),
    ) -> None:
        super().__init__(space, metric, mode)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._objectives = tuple(objectives) or ((metric, mode),)
        self._stop = dict(stop or {})
        self._trials: dict[str, Trial] = {}
        self._last_step: dict[str, int] = {}
        self.study = optuna.create_study(
            sampler=sampler,
            pruner=optuna.pruners.NopPruner(),
            directions=["maximize" if m == "max" else "minimize" for _, m in self._objectives],
            study_name="tunescape",
        )
        self.study.add_trials(history)
        domains = {p.name: p.domain for p in space.parameters}
        for point in points:
            self.study.enqueue_trial({n: to_optuna(domains[n], v) for n, v in point.items()})

    def extend(self, num_samples: int, stop: Mapping[str, float]) -> None:
        self._stop = dict(stop)

    def reopen(self, trial_ids: Collection[str], *, anew: Collection[str] = ()) -> None:
        self.study, trials = reopen_trials(self.study, trial_ids, self._trials, anew=anew)
        self._trials.update(trials)

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return the next trial's searched settings."""
        trial = self.study.ask()
        trial.set_user_attr(TRIAL_ID, trial_id)
        self._trials[trial_id] = trial
        searched: dict[str, Any] = {}
        settings: dict[tuple[str, ...], Any] = {}
        for parameter in self.space.ordered:
            if parameter.active(settings):
                value = suggest(trial, parameter.name, parameter.domain)
                searched[parameter.name] = value
                settings[parameter.path] = parameter.domain.value(value)
        return self.space.config(searched)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Report an intermediate value; repeated and older steps (after a resume) are skipped."""
        trial = self._trials.get(trial_id)
        if trial is None or len(self._objectives) > 1:  # Optuna reports a single objective only
            return
        values = self._values(result)
        step = int(result.get(ENV_STEPS, result.get(ITERATION, 0)))
        if values is not None and step > self._last_step.get(trial_id, -1):
            trial.report(values[0], step)
            self._last_step[trial_id] = step

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Tell Optuna how the trial ended. Never raises: an exception here would end the sweep."""
        if trial_id not in self._trials:
            return
        result = result or {}
        values = self._values(result)
        # Tune does not pass on the result at which it stops a trial.
        self.on_trial_result(trial_id, result)
        trial = self._trials.pop(trial_id)
        try:
            if error or values is None:
                self.study.tell(trial, state=TrialState.FAIL)
            elif not self._stopped_early(result):
                self.study.tell(trial, values, state=TrialState.COMPLETE)
            elif len(values) == 1:
                self.study.tell(trial, state=TrialState.PRUNED)
            else:
                self.study.tell(trial, state=TrialState.FAIL)
        except (ValueError, RuntimeError) as problem:
            logger.warning("Optuna did not accept the end of trial %s: %s", trial_id, problem)
        self._last_step.pop(trial_id, None)

    def save(self, checkpoint_path: str) -> None:
        """Write the state, then bring the copy up to date: it is never ahead of the state."""
        super().save(checkpoint_path)
        if self.copy is not None:
            self.copy.update(self.study)

    def _values(self, result: Mapping[str, Any]) -> list[float] | None:
        """Return the objectives of a result; None unless all are finite numbers."""
        values = []
        for metric, _ in self._objectives:
            value = result.get(metric)
            if not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
                return None
            values.append(float(value))
        return values

    def _stopped_early(self, result: Mapping[str, Any]) -> bool:
        if PRUNED in result:
            return bool(result[PRUNED])
        reached = (
            metric in result and result[metric] >= limit for metric, limit in self._stop.items()
        )
        return bool(self._stop) and not any(reached)


def distribution(domain: Domain) -> BaseDistribution:
    """Return the Optuna distribution of a domain, on the searched scale."""
    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.labels())
    if isinstance(domain, QUniform):
        if domain.whole:
            return IntDistribution(int(domain.low), int(domain.high), step=int(domain.step))
        return FloatDistribution(domain.low, domain.high, step=domain.step)
    if isinstance(domain, Uniform):
        return FloatDistribution(domain.low, domain.high, log=isinstance(domain, LogUniform))
    assert isinstance(domain, RandInt)
    return IntDistribution(domain.low, domain.high - 1, log=isinstance(domain, LogRandInt))


def to_optuna(domain: Domain, searched: Any) -> Any:
    """Return what Optuna is told of a searched value (a choice of lists is searched by label)."""
    if isinstance(domain, Choice):
        return domain.labels()[domain.values.index(searched)]
    return searched


def reopen_trials(
    study: Study,
    trial_ids: Collection[str],
    running: Mapping[str, Trial],
    *,
    anew: Collection[str] = (),
) -> tuple[Study, dict[str, Trial]]:
    """Return a study in which these trials run again, with their settings and intermediate values.

    A value that was told at a smaller budget, or a failure, is no longer in it: it would count
    against settings whose last word is not spoken.

    Args:
        study: The study as it was saved; it lies in memory.
        trial_ids: Tune's ids of the trials.
        running: The trials that run, by such an id; they are moved to the returned study.
        anew: Those of `trial_ids` that start from the beginning: they lose their intermediate
            values, for Optuna keeps the first value that it is told of a step.

    Returns:
        The study, and by Tune's id those of the trials that it knows.
    """
    frozen = study.get_trials(deepcopy=False)
    ended = {t.number: t for t in frozen if _id(t) in trial_ids and t.state.is_finished()}
    if not ended:
        return study, {}
    new = create_study(
        sampler=study.sampler,
        pruner=study.pruner,
        directions=study.directions,
        study_name=study.study_name,
    )
    new.add_trials([_as_running(t, _id(t) in anew) if t.number in ended else t for t in frozen])
    # One of a generation's parents may have been reopened.
    copy_notes(study, new, keep=lambda key: _PARENTS not in key)
    for trial in running.values():
        move_trial(trial, new)
    return new, {_id(trial): handle(new, number) for number, trial in ended.items()}


def _id(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get(TRIAL_ID, ""))


def _as_running(trial: FrozenTrial, anew: bool) -> FrozenTrial:
    return create_trial(
        state=TrialState.RUNNING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs=trial.user_attrs,
        system_attrs=trial.system_attrs,
        intermediate_values={} if anew else trial.intermediate_values,
    )
