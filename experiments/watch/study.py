"""A sweep's trials as an Optuna study in memory, whatever search made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.search.optuna_search import TRIAL_ID, distribution, to_optuna
from experiments.watch.watched_sweep import ENDED, WatchedSweep, WatchedTrial
from search_spaces.conditions import SpaceKeyError
from search_spaces.points import searched_config

if TYPE_CHECKING:
    from search_spaces.space import SearchSpace

OUTSIDE = "outside_space"
"""User attribute of a trial without parameters: the setting that the search space does not hold."""


def new_study(
    sweep: WatchedSweep, storage: optuna.storages.BaseStorage | None = None
) -> optuna.Study:
    """Return an empty study with the sweep's name and objectives.

    Args:
        sweep: The sweep.
        storage: Where the study is; by default in memory.
    """
    return optuna.create_study(
        storage=storage,
        study_name=sweep.folder.name,
        directions=["maximize" if mode == "max" else "minimize" for _, mode in sweep.objectives],
    )


def study_of(sweep: WatchedSweep, space: SearchSpace) -> optuna.Study:
    """Return a study of the trials as they stand, in their order.

    A trial's parameters are the settings that it began with: a population changes them later.
    A trial that was cut off has failed. A trial whose settings the space does not hold, because
    the spec was changed, has no parameters.

    Args:
        sweep: The sweep, as it was last looked at.
        space: What it searches.
    """
    study = new_study(sweep)
    study.add_trials([_frozen(trial, space, len(sweep.objectives)) for trial in sweep.trials])
    return study


def _frozen(trial: WatchedTrial, space: SearchSpace, objectives: int) -> FrozenTrial:
    domains = {parameter.name: parameter.domain for parameter in space.parameters}
    attributes: dict[str, Any] = {TRIAL_ID: trial.trial_id}
    try:
        searched = searched_config(space, trial.log.first_config or trial.config)
    except SpaceKeyError as error:
        searched, attributes[OUTSIDE] = {}, error.key
    state, values = _end(trial, objectives)
    return create_trial(
        state=state,
        values=values,
        params={name: to_optuna(domains[name], value) for name, value in searched.items()},
        distributions={name: distribution(domains[name]) for name in searched},
        user_attrs=attributes,
        intermediate_values=_intermediate(trial) if objectives == 1 else {},
    )


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
