"""Whether the search algorithm of a spec can search its space, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.search.kind import PLACE
from experiments.search.registry import search_kind
from experiments.spec.schema import SweepSpec
from experiments.spec.section import MAX_TRIALS, shown_count
from search_spaces.conditions import SpaceKeyError
from search_spaces.documents import Document, KeyPath
from search_spaces.domains import Grid
from search_spaces.points import searched_point
from search_spaces.space import SearchSpace


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
