"""What a kind of search declares, and how it is checked, completed and built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from experiments.spec.schema import SweepSpec
from experiments.spec.section import Section
from search_spaces.documents import Document
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

PLACE = ("search",)
"""Where errors of a search point."""

Options = TypeVar("Options", bound=Section)


class SearchKind(Generic[Options]):
    """One kind of search; a subclass lies in the module with the name of its algorithm.

    What a kind imports at the top of its module does not import Optuna, which takes a while.

    Attributes:
        options: The `search` section of a spec; `complete` fills in what it leaves open.
    """

    whole_grid: ClassVar[bool] = False
    """Whether every value of every setting is tried, instead of some that are drawn."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def check(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        """Check the options against the rest of the spec.

        Raises:
            SpecError: The search cannot search this space, or an option is wrong.
        """

    def complete(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        """Fill in the options that follow from the rest of the spec.

        Raises:
            SpecError: The options do not go together.
        """

    def notes(self, spec: SweepSpec, space: SearchSpace) -> list[str]:
        """Return what a user should know of how this space is searched, a line each."""
        return []

    def total(self, spec: SweepSpec, space: SearchSpace) -> int:
        """Return the number of trials of a sweep."""
        return spec.num_samples * sum(1 for _ in space.grid_points(whole=self.whole_grid))

    def history_attributes(self) -> dict[str, Any]:
        """Optuna's marks on trials of earlier sweeps without which the sampler misses them."""
        return {}

    def check_history(self, complete: int) -> str | None:
        """Return why so few complete trials of earlier sweeps are of no use; None if they are."""
        return None

    def build(
        self,
        spec: SweepSpec,
        space: SearchSpace,
        points: Sequence[dict[str, Any]],
        history: Sequence[FrozenTrial] = (),
    ) -> Any:
        """Make Tune's searcher; the options are complete.

        Args:
            spec: The checked spec.
            space: The search space.
            points: The searched values to try first.
            history: The trials that the search learns from before its first one.
        """
        raise NotImplementedError
