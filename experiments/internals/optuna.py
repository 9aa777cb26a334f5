"""Every private part of Optuna that is used: the rest of the package calls these functions.

Optuna has no public way to let a trial go on that has ended. `tests` names the version for which
these parts are as they are taken to be here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optuna.samplers import NSGAIIISampler, NSGAIISampler
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial


def storage_of(study: Study) -> tuple[BaseStorage, int]:
    """Return a study's storage, with the cache that databases get, and the study's id in it."""
    return study._storage, study._study_id


def id_of(trial: FrozenTrial) -> int:
    """Return the id of a trial in its study's storage."""
    return trial._trial_id


def handle(study: Study, number: int) -> Trial:
    """Return what results of a running trial are reported to."""
    return Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)


def move_trial(trial: Trial, study: Study) -> None:
    """Have a running trial report to another study, in which it has the same number."""
    trial.study, trial.storage = study, study._storage
    trial._trial_id = study.get_trials(deepcopy=False)[trial.number]._trial_id


def copy_notes(source: Study, target: Study, keep: Callable[[str], bool]) -> None:
    """Copy what a sampler noted in a study: how far it is in a Sobol sequence, for one.

    Args:
        source: The study that has the notes.
        target: The study that gets them.
        keep: Whether to hand on the note with this key.
    """
    for key, value in source._storage.get_study_system_attrs(source._study_id).items():
        if keep(key):
            target._storage.set_study_system_attr(target._study_id, key, value)


def first_generation(sampler: type[NSGAIISampler] | type[NSGAIIISampler]) -> dict[str, Any]:
    """Return the mark of trials that an evolution takes for its first generation."""
    return {sampler._get_generation_key(): 0}
