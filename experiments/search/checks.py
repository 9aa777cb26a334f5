"""Whether the search algorithm of a spec can search its space, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.credentials import scrubbed
from analysis.results.store_files import why_no_tracking_uri
from experiments.spec.references import writes_secret
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import (
    CmaesSearch,
    GpSearch,
    GridSearch,
    LearningSection,
    Nsga2Search,
    Nsga3Search,
    OptunaSection,
    TpeSearch,
)
from experiments.spec.section import MAX_TRIALS, shown_count
from search_spaces.conditions import SpaceKeyError
from search_spaces.documents import Document, KeyPath, SpecError
from search_spaces.domains import Choice, Grid
from search_spaces.points import searched_point
from search_spaces.space import Parameter, SearchSpace

_DATABASES = ("sqlite", "postgresql", "mysql", "mssql", "oracle")


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
    search = spec.search
    _check_trials(document, spec, space)
    _check_objectives(document, spec)
    if isinstance(search, OptunaSection):
        _check_optuna(document, spec, space)
        _check_storage(document, spec, search)
    if isinstance(search, LearningSection):
        _check_warm_start(document, spec, search)
    if isinstance(search, CmaesSearch):
        _check_cmaes(document, spec, space)
    if isinstance(search, TpeSearch):
        _complete_tpe(document, spec, search, space)
    if isinstance(search, Nsga2Search | Nsga3Search) and search.population_size is None:
        search.population_size = min(50, max(4, spec.num_samples // 5))
    if isinstance(search, GridSearch):
        _check_grid(document, spec, space)
    else:
        _check_points(document, spec, space, config_class)


def notes(spec: SweepSpec, space: SearchSpace) -> list[str]:
    """What a user should know of how this space is searched, a line each."""
    return [*_random_settings(spec, space), *_single_generation(spec)]


def _single_generation(spec: SweepSpec) -> list[str]:
    search = spec.search
    if not isinstance(search, Nsga2Search | Nsga3Search) or search.warm_start:
        return []  # an earlier sweep's trials are its first generation
    if search.population_size is None or search.population_size < spec.num_samples:
        return []
    return [
        f"{search.algorithm} draws its first generation at random, and num_samples = "
        f"{spec.num_samples} makes no second one of population_size = {search.population_size}; "
        "more samples, a smaller population_size or search: tpe learn from results"
    ]


def _random_settings(spec: SweepSpec, space: SearchSpace) -> list[str]:
    search = spec.search
    if isinstance(search, CmaesSearch):
        alone = [p for p in space.parameters if not _cmaes_models(p)]
        kinds = "choices and conditional settings"
    elif isinstance(search, (GpSearch, Nsga2Search, Nsga3Search)):
        alone = [p for p in space.parameters if p.conditions]
        kinds = "conditional settings"
    else:
        return []
    if not alone:
        return []
    names = ", ".join(p.key for p in alone)
    return [
        f"{search.algorithm} draws {kinds} at random ({names}); tpe learns about them too"
    ]  # fmt: skip


def _check_trials(document: Document, spec: SweepSpec, space: SearchSpace) -> None:
    """Refuse more trials than a sweep may have, before any combination is listed."""
    points = space.most_grid_points(whole=isinstance(spec.search, GridSearch))
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


def _check_optuna(document: Document, spec: SweepSpec, space: SearchSpace) -> None:
    algorithm = spec.search.algorithm
    if not space:
        raise document.error(("search",), f"search: {algorithm} needs a search_space")
    for parameter in space.parameters:
        if isinstance(parameter.domain, Grid):
            raise document.error(
                ("search_space", parameter.key),
                f"{parameter.key}: {algorithm} cannot search a grid; write choice instead, "
                "or use the search random or grid",
            )


def _check_storage(document: Document, spec: SweepSpec, search: OptunaSection) -> None:
    place: KeyPath = ("search", "study_storage")
    uri = search.study_storage
    if uri is None:
        if search.study_name is not None:
            raise document.error(
                ("search", "study_name"), "search: study_name needs study_storage: where it is"
            )
        return
    known = uri.split("://")[0].split("+")[0] in _DATABASES if "://" in uri else bool(uri)
    if not known:
        raise document.error(
            place,
            f"search: study_storage = {scrubbed(uri)!r} is no storage of Optuna's; allowed: "
            f"{', '.join(f'{name}://…' for name in _DATABASES)}, or the path of a journal file",
        )
    if writes_secret(uri, spec._references.get("search.study_storage")):
        raise document.error(
            place,
            "search: study_storage holds a password, which would be kept in the sweep's folder; "
            "put the URI in an environment variable and write study_storage: ${env:NAME}",
        )


def _check_warm_start(document: Document, spec: SweepSpec, search: LearningSection) -> None:
    for number, source in enumerate(search.warm_start):
        place: KeyPath = ("search", "warm_start", number)
        if (source.folder is None) == (source.mlflow_experiment is None):
            raise document.error(
                place, f"search: warm_start[{number}] needs either folder or mlflow_experiment"
            )
        if source.tracking_uri is not None and source.mlflow_experiment is None:
            raise document.error(
                (*place, "tracking_uri"),
                f"search: warm_start[{number}]: tracking_uri belongs to mlflow_experiment",
            )
        problem = why_no_tracking_uri(source.tracking_uri or "")
        if problem is not None:
            raise document.error(
                (*place, "tracking_uri"), f"search: warm_start[{number}]: tracking_uri: {problem}"
            )
        reference = spec._references.get(f"search.warm_start.{number}.tracking_uri")
        if writes_secret(source.tracking_uri, reference):
            raise document.error(
                (*place, "tracking_uri"),
                f"search: warm_start[{number}]: tracking_uri holds credentials, which would be "
                "kept in the sweep's folder; put the URI in an environment variable and write "
                "tracking_uri: ${env:NAME}",
            )


def _check_cmaes(document: Document, spec: SweepSpec, space: SearchSpace) -> None:
    if len(spec.objectives) > 1:
        raise document.error(
            ("search",),
            f"search: cmaes optimises one objective, not {len(spec.objectives)}: it follows one "
            "distribution towards one optimum; use nsga2, nsga3, tpe or gp",
        )
    if not any(_cmaes_models(parameter) for parameter in space.parameters):
        raise document.error(
            ("search",),
            "search: cmaes adapts a normal distribution over numbers, and this space has only "
            "choices and conditional settings, which it would draw at random; use tpe",
        )


def _cmaes_models(parameter: Parameter) -> bool:
    return not isinstance(parameter.domain, Choice) and not parameter.conditions


def _complete_tpe(
    document: Document, spec: SweepSpec, search: TpeSearch, space: SearchSpace
) -> None:
    if search.group and search.multivariate is False:
        raise document.error(
            ("search", "group"),
            "search: group = true needs multivariate: true, as it models settings jointly",
        )
    if search.multivariate is None:
        search.multivariate = bool(search.group) or len(spec.objectives) < 2
    if search.group is None:
        conditional = any(parameter.conditions for parameter in space.parameters)
        search.group = search.multivariate and conditional


def _check_grid(document: Document, spec: SweepSpec, space: SearchSpace) -> None:
    try:
        next(space.grid_points(whole=True))
    except SpecError as error:
        raise document.error(("search_space",), f"search_space: {error}") from None
    if spec.num_samples != 1:
        raise document.error(
            ("num_samples",), "num_samples: a grid search runs every combination once"
        )


def _check_points(
    document: Document, spec: SweepSpec, space: SearchSpace, config_class: Any
) -> None:
    points: list[dict[str, Any]] = getattr(spec.search, "points_to_evaluate", [])
    place: KeyPath = ("search", "points_to_evaluate")
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
    """The point with canonical names, nested settings apart."""
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
