"""Optuna trials that had ended and go on: Optuna itself knows no way back from an end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from optuna.study import Study, create_study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from experiments.internals.optuna import copy_notes, handle, move_trial

TRIAL_ID = "trial_id"
"""User attribute of an Optuna trial: Tune's id of it."""


_PARENTS = ":parent:"
"""In a study's attribute that holds the parents of a generation, chosen among the ended trials."""


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
        running: By such an id, the trials that run; they are moved to the returned study.
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
