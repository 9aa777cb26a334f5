"""What a spec's scheduler needs: budgets from `stop`, and a search and trainable that it suits."""

from __future__ import annotations

from typing import Any

from experiments.schedulers.kind import PLACE
from experiments.schedulers.registry import scheduler_kind
from experiments.spec.pairs import why_not
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document
from search_spaces.space import SearchSpace

_BUFFER = "store_buffer_in_checkpoints"


def check_pair(document: Document, spec: SweepSpec) -> None:
    """Whether the search and the objectives suit the scheduler.

    Raises:
        SpecError: Why they do not, and what would.
    """
    kind, name = scheduler_kind(spec.scheduler), spec.scheduler.algorithm
    for scheduler in (name, kind.decided_by):
        reason = why_not(spec.search.algorithm, scheduler)
        if reason is not None:
            raise document.error(PLACE, f"scheduler: {reason}")
    if len(spec.objectives) > 1 and kind.compares:
        raise document.error(
            PLACE,
            f"scheduler: {name} compares trials by one objective, and there are "
            f"{len(spec.objectives)}; use scheduler: fifo, or a single objective",
        )


def check_scheduler(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    """Check the scheduler against the rest of the spec, and complete its budgets.

    Raises:
        SpecError: What does not go together, why, and what would.
    """
    kind = scheduler_kind(spec.scheduler)
    if kind.pauses:
        _require_stored_buffer(document, spec, space, trainable)
    kind.check(document, spec, space, trainable)
    kind.complete(document, spec, space, trainable)
    if kind.needs_all and spec.max_concurrent is not None:
        raise document.error(
            ("max_concurrent",),
            f"max_concurrent: {spec.scheduler.algorithm} compares trials that wait for each other, "
            "and all of them must have begun; leave it out: resources.num_cpus says how many run "
            "at a time",
        )


def _require_stored_buffer(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    """A paused trial goes on from a checkpoint: with an empty replay buffer it learns nothing."""
    config_class = getattr(trainable, "config_class", None)
    settings = config_class.settings() if config_class is not None else {}
    if _BUFFER not in settings:
        return
    stored = spec.config.get(_BUFFER, settings[_BUFFER].default)
    if not stored or _BUFFER in space.keys:
        raise document.error(
            PLACE,
            f"scheduler: {spec.scheduler.algorithm} pauses trials and goes on from their "
            f"checkpoints, and those of {spec.trainable} hold no replay buffer; set "
            f"config.{_BUFFER}: true, or use scheduler: asha, median_stopping or fifo",
        )
