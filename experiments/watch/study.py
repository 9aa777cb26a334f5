"""A sweep's trials as an Optuna study in memory, whatever search made them."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.search.optuna_search import TRIAL_ID, distribution, to_optuna
from experiments.watch.watched_sweep import WatchedSweep
from experiments.watch.watched_trial import ENDED, WatchedTrial
from search_spaces.conditions import SpaceKeyError
from search_spaces.points import searched_config

if TYPE_CHECKING:
    from search_spaces.space import SearchSpace

OUTSIDE = "outside_space"
"""User attribute of a trial without parameters: the setting that the search space does not hold."""


def shown_study(sweep: WatchedSweep) -> optuna.Study:
    """Return an empty study in memory, with the sweep's name and objectives."""
    study = _new_study(sweep)
    with warnings.catch_warnings():
        # That Optuna calls it experimental is no news to the user.
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.set_metric_names([metric for metric, _ in sweep.objectives])
    return study


def study_of(sweep: WatchedSweep, space: SearchSpace) -> optuna.Study:
    """Return a study of the trials as they stand, in their order.

    A trial's parameters are the settings that it began with: a population changes them later.
    A trial that was cut off has failed. A trial whose settings the space does not hold, because
    the spec was changed, has no parameters.

    Args:
        sweep: The sweep, as it was last looked at.
        space: What it searches.
    """
    study = _new_study(sweep)
    study.add_trials([_frozen(trial, space, len(sweep.objectives)) for trial in sweep.trials])
    return study


def _new_study(sweep: WatchedSweep) -> optuna.Study:
    return optuna.create_study(
        study_name=sweep.folder.name,
        directions=["maximize" if mode == "max" else "minimize" for _, mode in sweep.objectives],
    )


def _frozen(trial: WatchedTrial, space: SearchSpace, objectives: int) -> FrozenTrial:
    domains = {parameter.name: parameter.domain for parameter in space.parameters}
    attributes: dict[str, Any] = {TRIAL_ID: trial.trial_id}
    try:
        searched = searched_config(space, trial.config)
    except SpaceKeyError as error:
        searched, attributes[OUTSIDE] = {}, error.key
    state, values = _end(trial, objectives)
    found = create_trial(
        state=state,
        values=values,
        params={name: to_optuna(domains[name], value) for name, value in searched.items()},
        distributions={name: distribution(domains[name]) for name in searched},
        user_attrs=attributes,
        intermediate_values=_intermediate(trial) if objectives == 1 else {},
    )
    # Not when it was read.
    found.datetime_start = _time(trial.log.began) or found.datetime_start
    if state.is_finished():
        found.datetime_complete = _time(trial.log.last.get("timestamp")) or found.datetime_complete
    return found


def _time(seconds: Any) -> datetime | None:
    """Return a time as Optuna has it, in this machine's zone; None where results do not say."""
    try:
        return datetime.fromtimestamp(seconds)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _end(trial: WatchedTrial, objectives: int) -> tuple[TrialState, list[float] | None]:
    """Return how Optuna calls a trial's state, and its values if it is complete."""
    if trial.status not in ENDED:
        lost = trial.status == "interrupted"
        return (TrialState.FAIL if lost else TrialState.RUNNING), None
    if trial.status == "pruned" and objectives == 1 and trial.log.points:
        return TrialState.PRUNED, None
    values = trial.log.points[-1].values if trial.log.points else (None,)
    found = [value for value in values if value is not None]
    if trial.status == "finished" and len(found) == objectives:
        return TrialState.COMPLETE, found
    return TrialState.FAIL, None


def _intermediate(trial: WatchedTrial) -> dict[int, float]:
    points = trial.log.points
    return {int(point.steps): point.values[0] for point in points if point.values[0] is not None}
