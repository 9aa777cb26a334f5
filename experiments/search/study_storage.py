"""A sweep's study in a storage of Optuna's, where optuna-dashboard shows it.

The study that suggests trials lives in memory and is saved with the sweep; the storage holds a
copy, which a thread brings up to date whenever the sweep is saved. So a storage that is slow or
dies delays no trial and loses nothing: what it misses is written when it answers again.
"""

from __future__ import annotations

import atexit
import copy
import logging
import threading
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from analysis.credentials import scrubbed
from analysis.reachable import why_unreachable
from analysis.results.store_files import sqlite_file
from experiments.errors import PreflightError, first_line
from experiments.internals.optuna import id_of, storage_of
from experiments.search.study_file import check_study_file
from experiments.spec.paths import absolute_location
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import OptunaSection

logger = logging.getLogger(__name__)

NUMBER = "sweep_number"
"""User attribute of a copied trial: its number in the sweep's own study."""

SUPERSEDES = "supersedes"
"""User attribute of the copy of a trial that went on after its end: its earlier copy's number.

Optuna lets nobody change a trial that has ended, so that one stays beside it.
"""

_RETRY_S = 5.0
_CLOSE_S = 30.0


def open_study(spec: SweepSpec, search: OptunaSection, *, resumed: bool = False) -> StudyCopy:
    """Open the storage that a spec names, with a study for this sweep in it.

    Args:
        spec: The sweep.
        search: Its search section, with a `study_storage`.
        resumed: Whether the sweep goes on, so that its study may be there.

    Raises:
        PreflightError: The storage cannot be used, or a new sweep's study is there already.
    """
    assert search.study_storage is not None
    name = search.study_name or spec.name
    shown = scrubbed(search.study_storage)
    modes = [objective.mode for objective in spec.objectives or [spec.objective]]
    check_study_file(search.study_storage)
    problem = why_unreachable(search.study_storage) if "://" in search.study_storage else None
    if problem:
        raise PreflightError(f"the study storage {shown} cannot be reached: {problem}")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = _storage(search.study_storage)
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            directions=["maximize" if mode == "max" else "minimize" for mode in modes],
            load_if_exists=True,
        )
        # `create_study` gives RDB storages a cache.
        storage, study_id = storage_of(study)
        trials = storage.get_all_trials(study_id)
        directions = storage.get_study_directions(study_id)
    except Exception as error:  # of the driver of some database
        hidden = first_line(error).replace(search.study_storage, shown)
        raise PreflightError(f"the study storage {shown} cannot be used: {hidden}") from None
    if trials and not resumed:
        raise PreflightError(
            f"the study storage {shown} has a study {name!r} already, with {len(trials)} trials; "
            "choose another search.study_name (to learn from an earlier sweep, name its folder "
            "under search.warm_start)"
        )
    if [d == StudyDirection.MAXIMIZE for d in directions] != [mode == "max" for mode in modes]:
        raise PreflightError(
            f"the study {name!r} in {shown} has other objectives; choose another study_name"
        )
    return StudyCopy(storage, study_id, trials, shown)


def _storage(uri: str) -> BaseStorage:
    """Return a database by its URI, or a journal file by its path."""
    location = absolute_location(uri)
    path = sqlite_file(location) if "://" in location else Path(location)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    if "://" in location:
        return RDBStorage(location)
    return JournalStorage(JournalFileBackend(location))


class StudyCopy:
    """Keeps a study in a storage equal to the one in memory.

    Args:
        storage: The storage.
        study_id: The study in it.
        found: The trials that it holds already, of the part of the sweep before it was cut off.
        name: The storage, for messages.
    """

    def __init__(
        self, storage: BaseStorage, study_id: int, found: list[FrozenTrial], name: str
    ) -> None:
        self._storage = storage
        self._study_id = study_id
        self._name = name
        # Trials of the storage by their number in the sweep, until the sweep has one of the number.
        # Of several copies the last one counts.
        self._found = {int(t.user_attrs[NUMBER]): t for t in found if NUMBER in t.user_attrs}
        self._sent: dict[int, tuple[TrialState, int]] = {}
        self._written: dict[int, tuple[int, TrialState, int]] = {}  # id, state, last step
        self._pending: dict[int, FrozenTrial] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="study-copy", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def update(self, study: optuna.Study) -> None:
        """Have the copy brought up to date with the study. Does not wait."""
        changed = {}
        for trial in study.get_trials(deepcopy=False):
            mark = (trial.state, len(trial.intermediate_values))
            if trial.state != TrialState.WAITING and self._sent.get(trial.number) != mark:
                self._sent[trial.number] = mark
                changed[trial.number] = copy.deepcopy(trial)
        if changed:
            with self._changed:
                self._pending.update(changed)
                self._changed.notify()

    def close(self) -> int:
        """Write what is left, for a bounded time; returns how many trials are not written."""
        atexit.unregister(self.close)
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)
        if self._pending:
            logger.error(
                "The study storage %s lacks %d trials; the sweep's folder has them all.",
                self._name,
                len(self._pending),
            )
        return len(self._pending)

    # -- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._closing:
                    self._changed.wait()
                numbers = sorted(self._pending)
            if not numbers:
                break
            try:
                for number in numbers:
                    with self._changed:
                        trial = self._pending[number]
                    self._write(trial)
                    with self._changed:
                        if self._pending[number] is trial:
                            del self._pending[number]
            except Exception as error:  # of the driver of some database
                self._warn(error)
                if self._closing:
                    return
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, timeout=_RETRY_S)
        self._end_lost_trials()

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "The study storage %s does not take trials (%s); the sweep continues, and they are "
                "written when it answers.",
                self._name,
                first_line(error),
            )

    def _write(self, trial: FrozenTrial) -> None:
        written = self._written.get(trial.number)
        if written is None:
            self._adopt_or_create(trial)
        elif written[1].is_finished() and not trial.state.is_finished():
            self._create(trial, ended=self._storage.get_trial(written[0]))
        trial_id, state, last_step = self._written[trial.number]
        if state.is_finished():
            return
        for step, value in sorted(trial.intermediate_values.items()):
            if step > last_step:
                self._storage.set_trial_intermediate_value(trial_id, step, value)
                last_step = step
                self._written[trial.number] = (trial_id, state, last_step)
        if trial.state.is_finished():
            self._storage.set_trial_state_values(trial_id, trial.state, trial.values)
            self._written[trial.number] = (trial_id, trial.state, last_step)

    def _adopt_or_create(self, trial: FrozenTrial) -> None:
        """Find the trial's copy from before the sweep was cut off, or make one."""
        found = self._found.pop(trial.number, None)
        if found is not None and found.params != trial.params:
            # It was suggested after the last save, and the resumed sweep suggested something else.
            self._fail(found)
            found = None
        if found is None:
            self._create(trial)
        elif found.state.is_finished() and _end(found) != _end(trial):
            self._create(trial, ended=found)
        else:
            self._note(trial.number, id_of(found), found)

    def _create(self, trial: FrozenTrial, *, ended: FrozenTrial | None = None) -> None:
        """Make a copy of the trial, in the place of one that says an end which no longer holds."""
        template = copy.deepcopy(trial)
        template.user_attrs[NUMBER] = trial.number
        if ended is not None:
            template.user_attrs[SUPERSEDES] = ended.number
        template.system_attrs.clear()  # notes of the sampler: not for others to go by
        trial_id = self._storage.create_new_trial(self._study_id, template_trial=template)
        self._note(trial.number, trial_id, template)

    def _note(self, number: int, trial_id: int, written: FrozenTrial) -> None:
        last_step = max(written.intermediate_values, default=-1)
        self._written[number] = (trial_id, written.state, last_step)

    def _end_lost_trials(self) -> None:
        """Trials that a kill left running, and that the sweep did not run again, have failed."""
        try:
            for found in self._found.values():
                self._fail(found)
        except Exception as error:
            self._warn(error)

    def _fail(self, found: FrozenTrial) -> None:
        if not found.state.is_finished():
            self._storage.set_trial_state_values(id_of(found), TrialState.FAIL)


def _end(trial: FrozenTrial) -> tuple[TrialState, list[float] | None]:
    return trial.state, trial.values
