"""From a spec to Tune's search algorithm, and how many of its trials are alive at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ray.tune.search import ConcurrencyLimiter, Searcher

from experiments.search.kind import search_kind
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import OptunaSection
from search_spaces.points import searched_point
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from experiments.search.study_storage import StudyCopy


def build_search(
    spec: SweepSpec,
    space: SearchSpace,
    max_concurrent: int,
    *,
    history: Sequence[FrozenTrial] = (),
    study: StudyCopy | None = None,
) -> ConcurrencyLimiter:
    """Return the search algorithm of a spec, limited to `max_concurrent` trials at a time.

    Without the limit Tune keeps a single trial pending and a sweep runs its trials one by one.

    Args:
        spec: The sweep.
        space: Its search space.
        max_concurrent: Trials at a time.
        history: What the search learns from before its first trial.
        study: Where a copy of an Optuna study is kept.
    """
    points = searched_points(spec, space)
    searcher: Any = search_kind(spec.search).build(spec, space, points, history)
    if study is not None:
        searcher.copy = study
    return ConcurrencyLimiter(searcher, max_concurrent=max_concurrent)


def study_copy(spec: SweepSpec, *, resumed: bool = False) -> StudyCopy | None:
    """Open the storage that keeps a copy of the study, if the spec names one.

    Raises:
        PreflightError: See `experiments.search.study_storage.open_study`.
    """
    if not isinstance(spec.search, OptunaSection) or spec.search.study_storage is None:
        return None
    from experiments.search.study_storage import open_study

    return open_study(spec, spec.search, resumed=resumed)


def searched_points(spec: SweepSpec, space: SearchSpace) -> list[dict[str, Any]]:
    """Return the searched values of the spec's points to evaluate first."""
    points = getattr(spec.search, "points_to_evaluate", [])
    return [searched_point(space, point) for point in points]


class TogetherLimiter(ConcurrencyLimiter):
    """Lets `max_concurrent` trials be alive, and only says that the search is over when they ended.

    Tune ends the process of a trial that pauses when the search is over and no other trial waits
    for one. A population all pauses: each time it would start its processes anew, in seconds.

    Args:
        searcher: Makes the trials.
        max_concurrent: Trials that may be running or paused.
        total: Trials of the sweep. Tune must be told of one more, or it counts for itself.
    """

    def __init__(self, searcher: Searcher, max_concurrent: int, total: int) -> None:
        super().__init__(searcher, max_concurrent=max_concurrent)
        self.total, self.made = total, 0

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Return the next trial's settings; None while trials that are alive may still pause."""
        if self.made >= self.total:
            finished: Any = Searcher.FINISHED
            return None if self.live_trials else finished
        suggestion: dict[str, Any] | None = super().suggest(trial_id)
        if isinstance(suggestion, dict):
            self.made += 1
        return suggestion
