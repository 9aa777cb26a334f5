"""Failures that further attempts cannot mend: they are not repeated, and end a doomed sweep.

A `ConfigError` says that settings do not fit: the same settings fail again, so such a trial is not
retried, whatever `max_failures` allows. And where the first trials all fail with the same cause
before any result, so would the others: the sweep ends with one message instead of a failure each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.names import ITERATION
from analysis.results.failures import cause_of
from experiments.errors import DoomedError
from experiments.internals.tune import on_failure
from experiments.spec.paths import command_line
from experiments.trial_info import error_cause
from trainables.core.errors import ConfigError
from trainables.runtime.actors.feasibility import InfeasibleError

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.experiment import Trial

# Fewer trials may share a cause by chance: a value of a choice that most trials do not have.
LEAST = 3
# These themselves, by name: of a trial that fails in its set-up Ray keeps only the text. Other
# subclasses stand for what another attempt may find mended: a checkpoint's storage, a simulator.
_FINAL = tuple(f"{kind.__module__}.{kind.__qualname__}:" for kind in (ConfigError, InfeasibleError))


class FailureGuard:
    """Takes part in how Tune handles the failures of trials.

    Args:
        controller: Tune's loop.
    """

    def __init__(self, controller: TuneController) -> None:
        self._controller = controller
        self._failures: list[tuple[str, str]] = []  # in this session, the final ones
        on_failure(controller, self._handle)

    def _handle(self, trial: Trial, exception: Exception, go_on: Callable[[], None]) -> None:
        retries = trial.max_failures
        if is_final(exception):
            trial.max_failures = 0
        try:
            go_on()
        finally:
            trial.max_failures = retries
        self.note(trial)

    def note(self, trial: Trial) -> None:
        """Note a trial's failure, unless it is tried again."""
        if trial.status == trial.ERROR:
            self._failures.append((trial.trial_id, error_cause(trial)))

    @property
    def is_doomed(self) -> bool:
        """Whether as many trials as run at a time, and `LEAST`, failed alike without a result."""
        failures = self._failures
        if len(failures) < max(LEAST, self._at_once) or len({cause for _, cause in failures}) > 1:
            return False
        if self._controller.is_finished():  # nothing is left to stop: an end like any other
            return False
        return not any(map(_has_result, self._controller.get_trials()))

    def stop(self) -> None:
        """End a sweep that is doomed.

        Raises:
            DoomedError: with the cause, and how to go on.
        """
        folder = Path(self._controller.experiment_path)
        retry = f"{command_line('resume', folder)} --retry-errored"
        raise DoomedError(
            f"the sweep was stopped: its first {len(self._failures)} trials all failed before "
            f"their first result, with the same cause: {self._failures[0][1]}. After you fix it, "
            f"`{retry}` runs these trials again and the remaining ones; a corrected spec can run "
            "under the same name",
            self._failures,
        )

    @property
    def _at_once(self) -> int:
        search: Any = self._controller.search_alg
        return int(getattr(getattr(search, "searcher", None), "max_concurrent", 0) or 0)


def _has_result(trial: Trial) -> bool:
    # Not `trial.last_result`, which makes up one.
    return ITERATION in (trial.run_metadata.last_result or {})


def is_final(exception: Exception) -> bool:
    """Tell whether a trial that failed so would fail again."""
    return cause_of(str(exception)).startswith(_FINAL)
