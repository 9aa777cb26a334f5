"""What a resume changes in the state that Tune saved: its size, its budget, its failed trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ray.tune.search import SearchGenerator

from analysis.results.rows import flatten
from experiments.durability import checkpoint_journal
from experiments.errors import SweepError
from experiments.internals.tune import forget_checkpoints, grow_search, set_criteria
from experiments.trial_info import PRUNED, trial_folder

if TYPE_CHECKING:
    from ray.tune.experiment import Trial
    from ray.tune.search import Searcher

Errored = Literal["keep", "retry", "restart"]

# What a failed trial leaves behind that its clean start must not find.
_LEFT_BEHIND = ("result.json", "progress.csv", "events.out.tfevents*", checkpoint_journal.JOURNAL)
_MOVED = (*_LEFT_BEHIND, "error.*", "checkpoint_*")


@dataclass(frozen=True)
class Changes:
    """How a resumed sweep differs from the one that was saved.

    Attributes:
        num_trials: All trials that it is to have.
        num_samples: The spec's number, of which that follows.
        stop: The stop criteria of every trial from now on.
        longer: Finished trials that go on because the budget is longer now.
        retried: Failed trials that go on from their latest checkpoints.
        restarted: Failed trials that start anew.
        unfinished: Trials that were cut off.
        max_concurrent: How many trials run at a time.
    """

    num_trials: int
    num_samples: int
    stop: dict[str, float]
    longer: frozenset[str]
    retried: frozenset[str]
    restarted: frozenset[str]
    unfinished: frozenset[str]
    max_concurrent: int

    @property
    def reopened(self) -> frozenset[str]:
        """All trials that had ended and go on."""
        return self.longer | self.retried | self.restarted

    @property
    def at_once(self) -> int:
        """How many of the reopened trials may run from the beginning."""
        return max(0, self.max_concurrent - len(self.unfinished))


def plan_changes(
    trials: Sequence[Trial],
    *,
    num_trials: int,
    num_samples: int,
    stop: Mapping[str, float],
    max_concurrent: int,
    errored: Errored = "keep",
) -> Changes:
    """Compare the trials as they were saved with what the sweep is to be.

    Raises:
        SweepError: A finished trial has no checkpoint from which it could go on.
    """
    failed = frozenset(trial.trial_id for trial in trials if trial.status == "ERROR")
    longer = [
        trial
        for trial in trials
        if trial.status == "TERMINATED"
        and goes_on(trial.last_result, trial.stopping_criterion, stop)
    ]
    for trial in longer:
        if trial.checkpoint is None or not Path(trial.checkpoint.path).is_dir():
            raise SweepError(
                f"trial {trial.trial_id} has no checkpoint to continue from, so the sweep cannot "
                "get a longer budget: checkpoint.at_end was false, or its checkpoints were "
                "deleted; start a new sweep instead"
            )
    return Changes(
        num_trials=num_trials,
        num_samples=num_samples,
        stop=dict(stop),
        longer=frozenset(trial.trial_id for trial in longer),
        retried=failed if errored == "retry" else frozenset(),
        restarted=failed if errored == "restart" else frozenset(),
        unfinished=frozenset(trial.trial_id for trial in trials if not trial.is_finished()),
        max_concurrent=max_concurrent,
    )


def goes_on(
    result: Mapping[str, Any], before: Mapping[str, float], now: Mapping[str, float]
) -> bool:
    """Tell whether a trial that ended with `result` ended only because of the old stop criteria.

    Not one that a scheduler ended early, or that ended itself.
    """
    if before == now or result.get(PRUNED):
        return False
    return _meets(result, before) and not _meets(result, now)


def _meets(result: Mapping[str, Any], stop: Mapping[str, float]) -> bool:
    flat = flatten({key: value for key, value in result.items() if key != "config"})
    return any(key in flat and flat[key] >= limit for key, limit in stop.items())


class ResumedSearch(SearchGenerator):
    """Tune's wrapper of the searcher, which takes over the changes once the state is there."""

    def __init__(self, searcher: Searcher, changes: Changes) -> None:
        super().__init__(searcher)
        self._changes = changes

    def restore_from_dir(self, dirpath: str) -> None:
        super().restore_from_dir(dirpath)
        changes = self._changes
        limiter: Any = self.searcher  # `experiments.search.build.build_search` makes it
        grow_search(self, changes.num_trials, reopens=bool(changes.reopened))
        set_criteria(self, changes.stop)
        search = limiter.searcher
        search.extend(changes.num_samples, changes.stop)
        open_trials = changes.unfinished | changes.reopened
        for trial_id in set(limiter.live_trials) - open_trials:
            # It was to be tried again when the driver was killed, and is not tried this time.
            limiter.on_trial_complete(trial_id, error=True)
        if changes.reopened:
            search.reopen(changes.reopened, anew=changes.restarted)
        limiter.max_concurrent = changes.max_concurrent
        limiter.live_trials |= changes.reopened
        limiter.num_unfinished_live_trials = len(limiter.live_trials)


def reopen(trial: Trial, changes: Changes) -> None:
    """Make a trial that had ended ready to go on, or to start anew."""
    trial.stopping_criterion = dict(changes.stop)
    metadata = trial.run_metadata
    metadata.num_failures = metadata.num_failures_after_restore = 0
    metadata.error_filename = metadata.pickled_error_filename = None
    if trial.trial_id in changes.restarted:
        _clear(trial)
    elif trial.trial_id in changes.longer:
        checkpoint_journal.reopen(trial)
    trial.invalidate_json_state()
    metadata.invalidate_cache()


def _clear(trial: Trial) -> None:
    """Put what a failed trial wrote out of the way, into `failed_1/`, `failed_2/`, … beside it."""
    folder = trial_folder(trial)
    attempt = 1 + len(list(folder.glob("failed_*")))
    kept = folder / f"failed_{attempt}"
    for pattern in _MOVED:
        for path in list(folder.glob(pattern)):
            kept.mkdir(exist_ok=True)
            path.rename(kept / path.name)
    for pattern in _LEFT_BEHIND:  # Tune's own copies
        for path in Path(trial.local_path or folder).glob(pattern):
            path.unlink()
    metadata = trial.run_metadata
    forget_checkpoints(trial)
    metadata.last_result = {}
    metadata.metric_analysis, metadata.metric_n_steps = {}, {}
