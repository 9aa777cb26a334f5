"""Optuna trials that had ended and go on: Optuna itself knows no way back from an end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from optuna.study import Study, create_study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

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
    """A study in which these trials run again, with their settings and intermediate values.

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
    _keep_notes(study, new)
    for trial in running.values():
        trial.study, trial.storage = new, new._storage
        trial._trial_id = new.get_trials(deepcopy=False)[trial.number]._trial_id
    return new, {_id(trial): _handle(new, number) for number, trial in ended.items()}


def _id(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get(TRIAL_ID, ""))


def _keep_notes(study: Study, new: Study) -> None:
    """Hand on what a sampler noted in the study: how far it is in a Sobol sequence, for one."""
    for key, value in study._storage.get_study_system_attrs(study._study_id).items():
        if _PARENTS not in key:  # one of the parents may have been reopened
            new._storage.set_study_system_attr(new._study_id, key, value)


def _as_running(trial: FrozenTrial, anew: bool) -> FrozenTrial:
    return create_trial(
        state=TrialState.RUNNING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs=trial.user_attrs,
        system_attrs=trial.system_attrs,
        intermediate_values={} if anew else trial.intermediate_values,
    )


def _handle(study: Study, number: int) -> Trial:
    """What results are reported to."""
    return Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)
