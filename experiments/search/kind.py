"""What a kind of search declares, and how it is checked, completed and built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from experiments.spec.schema import SweepSpec
from experiments.spec.section import MAX_TRIALS, Section, kind_of, shown_count
from search_spaces.conditions import SpaceKeyError
from search_spaces.documents import Document, KeyPath
from search_spaces.domains import Grid
from search_spaces.points import searched_point
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

    def at_a_time(self, total: int) -> int:
        """Return how many trials may well run at a time where there is room for all.

        Args:
            total: The number of trials of the sweep.
        """
        return total

    def history_attributes(self) -> dict[str, Any]:
        """Return Optuna's marks on earlier sweeps' trials without which the sampler misses them."""
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
        """Make Tune's searcher, by default one that goes by nothing that came out of trials.

        Args:
            spec: The checked spec.
            space: The search space.
            points: The searched values to try first.
            history: The trials that the search learns from before its first one.
        """
        from experiments.search.variant_search import VariantSearch

        return VariantSearch(
            space,
            metric=spec.objective.metric,
            mode=spec.objective.mode,
            num_samples=spec.num_samples,
            seed=spec.seed,
            whole_grid=self.whole_grid,
            points=list(points),
        )


def search_kind(options: Section) -> SearchKind[Any]:
    """Return the kind of a `search` section, with these options."""
    return kind_of(options, SearchKind)


def check_search(
    document: Document, spec: SweepSpec, space: SearchSpace, config_class: Any = None
) -> None:
    """Check the search section, and fill in what it leaves open.

    Args:
        document: Where errors point.
        spec: The spec; defaults that depend on the space are written into it, and the points to
            evaluate get canonical names.
        space: What is searched.
        config_class: The trainable's settings, if it declares them.

    Raises:
        SpecError: The algorithm cannot search this space, or one of its options is wrong.
    """
    kind = search_kind(spec.search)
    _check_trials(document, spec, space, kind.whole_grid)
    _check_objectives(document, spec)
    kind.check(document, spec, space)
    kind.complete(document, spec, space)
    _check_points(document, spec, space, config_class)


def _check_trials(
    document: Document, spec: SweepSpec, space: SearchSpace, whole_grid: bool
) -> None:
    """Refuse more trials than a sweep may have, before any combination is listed."""
    points = space.most_grid_points(whole=whole_grid)
    if spec.num_samples * points > MAX_TRIALS:
        raise document.error(
            ("search_space",),
            f"search_space: its grids have {shown_count(points)} combinations, each run "
            f"num_samples = {spec.num_samples} times; allowed: at most {MAX_TRIALS:,} trials",
        )


def _check_objectives(document: Document, spec: SweepSpec) -> None:
    metrics = [objective.metric for objective in spec.objectives]
    for number, metric in enumerate(metrics):
        if metric in metrics[:number]:
            raise document.error(
                ("objectives", number), f"objectives: {metric} is given twice; they must differ"
            )


def _check_points(
    document: Document, spec: SweepSpec, space: SearchSpace, config_class: Any
) -> None:
    points: list[dict[str, Any]] = getattr(spec.search, "points_to_evaluate", [])
    place: KeyPath = (*PLACE, "points_to_evaluate")
    if len(points) > spec.num_samples:
        raise document.error(
            place,
            f"search: {len(points)} points_to_evaluate do not fit into num_samples = "
            f"{spec.num_samples}",
        )
    for number, point in enumerate(points):
        try:
            points[number] = point = _canonical(point, config_class)
            searched_point(space, point)
            _refuse_grids(space, point)
        except SpaceKeyError as error:
            raise document.error(
                (*place, number, error.key), f"search: points_to_evaluate[{number}]: {error}"
            ) from None
        except ValueError as error:
            raise document.error(
                (*place, number), f"search: points_to_evaluate[{number}]: {error}"
            ) from None


def _canonical(point: Mapping[str, Any], config_class: Any) -> dict[str, Any]:
    """Return the point with canonical names, nested settings apart."""
    result: dict[str, Any] = {}
    for key, value in point.items():
        if config_class is None or "." in key or isinstance(value, dict):
            result[key] = value
        else:
            result.update(config_class.check({key: value}))
    return result


def _refuse_grids(space: SearchSpace, point: Mapping[str, Any]) -> None:
    for parameter in space.parameters:
        if isinstance(parameter.domain, Grid) and parameter.key in point:
            raise SpaceKeyError(
                parameter.key, f"{parameter.key} is a grid: all its values are tried anyway"
            )
