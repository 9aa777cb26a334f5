"""What a kind of scheduler declares, and how it is checked, completed and built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from experiments.spec.schema import SweepSpec
from experiments.spec.section import Section
from search_spaces.documents import Document
from search_spaces.space import SearchSpace

if TYPE_CHECKING:  # Tune takes a second to import, and a wrong spec is told before
    from ray.tune.schedulers import TrialScheduler

PLACE = ("scheduler",)
"""Where errors of a scheduler point."""

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

    def check(
        self, document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
    ) -> None:
        """Check the options against the rest of the spec.

        Raises:
            SpecError: The scheduler cannot run this sweep.
        """

    def complete(
        self, document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
    ) -> None:
        """Fill in the options that follow from the rest of the spec, budgets above all.

        Raises:
            SpecError: They do not follow from it, or do not go together.
        """

    def build(self, parts: Parts) -> TrialScheduler:
        """Make Tune's scheduler; the options are complete."""
        raise NotImplementedError

    def alive(self, num_trials: int, max_concurrent: int) -> int | None:
        """How many trials are alive at a time, running or paused, where the scheduler pauses them.

        Args:
            num_trials: The number of trials of the sweep.
            max_concurrent: The number of trials that run at a time.
        """
        return None

    def extend(self, metric: str, limit: float) -> None:
        """Bring the options in line with a stop criterion that became longer."""


def limit_of(document: Document, spec: SweepSpec, time_attr: str, option: str) -> float:
    """Return the stop criterion that a budget is derived from.

    Raises:
        SpecError: There is none, so that the option itself must be given.
    """
    limit = spec.stop.get(time_attr)
    if limit is None or limit < 1:
        name = spec.scheduler.algorithm
        raise document.error(PLACE, f"scheduler: {name} needs {option}, or stop.{time_attr}")
    return limit
