"""What a kind of scheduler declares, and how it is checked, completed and built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from experiments.spec.no_env import trains_in_env
from experiments.spec.pairs import why_not
from experiments.spec.schema import SweepSpec
from experiments.spec.section import Section, kind_of
from search_spaces.documents import Document
from search_spaces.space import SearchSpace

if TYPE_CHECKING:  # Tune takes a second to import, and a wrong spec is told before
    from ray.tune.schedulers import TrialScheduler

PLACE = ("scheduler",)
"""Where errors of a scheduler point."""
_BUFFER = "store_buffer_in_checkpoints"

Options = TypeVar("Options", bound=Section)


@dataclass(frozen=True)
class Parts:
    """The parts that a scheduler is built of.

    Attributes:
        spec: The checked spec.
        num_trials: The number of trials of the sweep.
        space: The search space.
        check: Raises `ValueError` for an invalid config; None if the trainable has no settings.
    """

    spec: SweepSpec
    num_trials: int
    space: SearchSpace
    check: Callable[[dict[str, Any]], None] | None


@dataclass(frozen=True)
class Draft:
    """A spec that is being checked.

    Attributes:
        document: The document that it was read from, in which errors point.
        spec: The spec; its scheduler is completed in place.
        space: The search space.
        trainable: The trainable class.
    """

    document: Document
    spec: SweepSpec
    space: SearchSpace
    trainable: Any


class SchedulerKind(Generic[Options]):
    """One kind of scheduler; a subclass lies in the module with the name of its algorithm.

    Attributes:
        options: The `scheduler` section of a spec; `complete` fills in what it leaves open.
    """

    pauses: ClassVar[bool] = False
    """Whether trials pause, and go on from their checkpoints."""
    compares: ClassVar[bool] = True
    """Whether trials are compared, by one objective."""
    needs_all: ClassVar[bool] = False
    """Whether trials wait for each other, so that all of them must have begun."""
    shares_cpus: ClassVar[bool] = False
    """Whether a trial grows: it has one process, and another one when it has grown."""
    fixed_size: ClassVar[str] = ""
    """Why a sweep cannot be given more samples, if it cannot."""
    fixed_budget: ClassVar[str] = ""
    """Why a sweep cannot be given a longer budget, if it cannot."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def decided_by(self) -> str:
        """The name of the algorithm that decides which trials end."""
        return str(self.options.algorithm)  # type: ignore[attr-defined]  # each section has it

    def check(self, draft: Draft) -> None:
        """Check the options against the rest of the spec.

        Raises:
            SpecError: The scheduler cannot run this sweep.
        """

    def complete(self, draft: Draft) -> None:
        """Fill in the options that follow from the rest of the spec, budgets above all.

        Raises:
            SpecError: They do not follow from it, or do not go together.
        """

    def build(self, parts: Parts) -> TrialScheduler:
        """Make Tune's scheduler; the options are complete."""
        raise NotImplementedError

    def alive(self, num_trials: int, max_concurrent: int) -> int | None:
        """Return how many trials are alive at a time, running or paused, if it pauses any.

        Args:
            num_trials: The number of trials of the sweep.
            max_concurrent: The number of trials that run at a time.
        """
        return None

    def extend(self, metric: str, limit: float) -> None:
        """Bring the options in line with a stop criterion that became longer."""


def scheduler_kind(options: Section) -> SchedulerKind[Any]:
    """Return the kind of a `scheduler` section, with these options."""
    return kind_of(options, SchedulerKind)


def limit_of(draft: Draft, time_attr: str, option: str) -> float:
    """Return the stop criterion that a budget is derived from.

    Raises:
        SpecError: There is none, so that the option itself must be given.
    """
    limit = draft.spec.stop.get(time_attr)
    if limit is None or limit < 1:
        name = draft.spec.scheduler.algorithm
        raise draft.document.error(PLACE, f"scheduler: {name} needs {option}, or stop.{time_attr}")
    return limit


def check_pair(document: Document, spec: SweepSpec) -> None:
    """See that the search and the objectives suit the scheduler.

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
    draft = Draft(document, spec, space, trainable)
    kind.check(draft)
    kind.complete(draft)
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
    if _BUFFER not in settings or not trains_in_env(spec.config, trainable):
        return
    stored = spec.config.get(_BUFFER, settings[_BUFFER].default)
    if not stored or _BUFFER in space.keys:
        raise document.error(
            PLACE,
            f"scheduler: {spec.scheduler.algorithm} pauses trials and continues them from "
            f"checkpoints, but those of {spec.trainable} hold no replay buffer; set "
            f"config.{_BUFFER}: true, or use scheduler: asha, median_stopping or fifo",
        )


def build_scheduler(
    spec: SweepSpec, space: SearchSpace, trainable: Any, num_trials: int
) -> TrialScheduler:
    """Return the scheduler that a checked spec asks for.

    Args:
        spec: The sweep.
        space: Its search space.
        trainable: The trainable class; its `config_class` says which mutations are valid.
        num_trials: The number of trials of the sweep.
    """
    config_class = getattr(trainable, "config_class", None)
    check = None if config_class is None else _ConfigCheck(config_class)
    return scheduler_kind(spec.scheduler).build(Parts(spec, num_trials, space, check))


class _ConfigCheck:
    """Whether a whole config is valid for a config class; pickled with Tune's state."""

    def __init__(self, config_class: Any) -> None:
        self._config_class = config_class

    def __call__(self, config: dict[str, Any]) -> None:
        self._config_class.from_dict(config).validate()
