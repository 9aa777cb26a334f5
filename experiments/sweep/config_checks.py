"""What the trainable, the metrics and the search make of a spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.names import ITERATION
from analysis.results.store_files import why_no_tracking_uri
from experiments.spec.merging import deep_merge
from experiments.spec.metrics import canonical_metric
from experiments.spec.no_env import check_reported, trains_in_env
from experiments.spec.references import writes_secret
from experiments.spec.schema import SweepSpec
from search_spaces.conditions import check_conditions, look_up, settings_of
from search_spaces.documents import Document, KeyPath, SpecError
from search_spaces.domains import is_domain
from search_spaces.parameter import assign
from search_spaces.space import SearchSpace, SpaceKeyError

# Metrics that a trial counts up: at 0 it would end with its first result.
_COUNTERS = ("num_", ITERATION, "time_", "timesteps_total", "episode_len")
_DRAWS = 20  # configurations drawn to see whether a space holds a valid one


def take_grids_from_config(document: Document) -> SearchSpace:
    """Move `{grid_search: […]}` entries, as the older form writes them, out of the config."""
    found = SearchSpace()

    def visit(node: dict[str, Any], path: tuple[str, ...]) -> None:
        nonlocal found
        for key, value in list(node.items()):
            here = (*path, key)
            if is_domain(value) and ("grid_search" in value):
                entry: dict[str, Any] = {}
                assign(entry, here, value)
                part = Document(entry, document.source)
                part.lines = {(): document.place(("config", *here))}
                found = found.merged(SearchSpace.parse_document(part, ()))
                del node[key]
            elif isinstance(value, dict):
                visit(value, here)

    visit(document.data["config"], ())
    return found


def check_config(document: Document, config_class: Any) -> dict[str, Any]:
    """Check the fixed settings against the trainable's; return them by canonical name.

    Raises:
        SpecError: A line for each that is not allowed, or one for what they are together.
    """
    config = document.data["config"]
    try:
        checked: dict[str, Any] = config_class.check(config)
    except ValueError as error:
        raise _config_error(document, config_class, error) from None
    return checked


def _config_error(document: Document, config_class: Any, together: ValueError) -> SpecError:
    """Return a line for each setting that is not allowed by itself; else what they are together."""
    wrong = []
    for key, value in document.data["config"].items():
        try:
            config_class.check({key: value})
        except ValueError as error:
            hint = ""
            if is_domain(value):
                hint = " (a domain belongs under search_space)"
            elif key in SweepSpec.model_fields:
                hint = " (it is a key of the spec itself: write it without indentation)"
            place = blame(value, ("config", key), str(error))
            wrong.append(str(document.error(place, f"config: {error}{hint}")))
    if wrong:
        return SpecError("\n".join(wrong))
    return document.error(("config",), f"config: {together}")


def blame(value: Any, path: KeyPath, message: str) -> KeyPath:
    """Return the deepest key of a nested setting that the message mentions."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if repr(key) in message or message.startswith(f"{key} ") or f".{key} " in message:
                return blame(inner, (*path, key), message)
    return path


def check_space(
    document: Document,
    space: SearchSpace,
    config_class: Any,
    root: tuple[str, ...] = ("search_space",),
) -> SearchSpace:
    """Check every key and bound against the trainable's settings; return canonical names."""
    try:
        return space.check(config_class)
    except SpaceKeyError as error:
        raise _space_error(document, error, root) from None


def _space_error(
    document: Document, error: SpaceKeyError, root: tuple[str, ...] = ("search_space",)
) -> SpecError:
    place: KeyPath = (*root, error.key)
    if place not in document.lines and place not in document.settings:
        place = (*root, *error.key.split("."))
    return document.error((*place, *error.below), f"search_space: {error.key}: {error}")


def join_spaces(
    document: Document, base: SearchSpace, inline: SearchSpace, grids: SearchSpace
) -> SearchSpace:
    """Return the whole space. A fixed setting leaves a named space; elsewhere it is an error."""
    config = document.data["config"]
    for part, root in ((inline, ("search_space",)), (grids, ("config",))):
        for parameter in part.parameters:
            if look_up(config, parameter.path)[0]:
                raise document.error(
                    (*root, parameter.key),
                    f"{parameter.key} is searched, and fixed under config; remove one of the two",
                )
    own = inline.merged(grids)
    if len(own.keys) < len(inline.keys) + len(grids.keys):
        twice = sorted(set(inline.keys) & set(grids.keys))
        raise document.error(("search_space", twice[0]), f"{twice[0]} is also searched in config")
    fixed = {p.key for p in base.parameters if look_up(config, p.path)[0]}
    return base.without(fixed).merged(own)


def settle_conditions(
    document: Document, space: SearchSpace, own: SearchSpace, config_class: Any
) -> SearchSpace:
    """Check the conditions of the whole space, and decide those on settings that are fixed.

    Args:
        document: Its `config` holds the fixed settings.
        space: The whole space.
        own: The part that the spec itself lists: there a setting that is never active is an error.
        config_class: The trainable's settings, if it declares them.
    """
    defaults: dict[str, Any] = {}
    if config_class is not None:
        defaults = settings_of(config_class())
    try:
        check_conditions(space.parameters)
        settled, never = space.settled(document.data["config"], defaults)
    except SpaceKeyError as error:
        raise _space_error(document, error) from None
    for key, why in never.items():
        if key in own.keys:
            problem = SpaceKeyError(key, f"is never searched: {why}", ("when",))
            raise _space_error(document, problem)
    return settled


def check_together(
    document: Document, spec: SweepSpec, space: SearchSpace, config_class: Any
) -> None:
    """Refuse settings that fail in combination: one drawn configuration at least is valid."""
    check_code = _code_check(config_class)
    generator = np.random.default_rng(spec.seed or 0)
    grid = next(space.grid_points())
    problem = ""
    for _ in range(_DRAWS if space else 1):
        drawn = space.config(space.sample(generator, grid))
        try:
            config = config_class.from_dict(deep_merge(spec.config, drawn))
            config.validate()
            if spec.resources.address is None:  # else it may be there that the code is
                check_code(config)
            return
        except ValueError as error:
            problem = str(error)
    every = f" (so is each of {_DRAWS} configurations drawn from the space)" if space else ""
    raise document.error(blame(spec.config, ("config",), problem), f"config: {problem}{every}")


def _code_check(config_class: Any) -> Callable[[Any], None]:
    """What looks at the code that a config names; of a trainable of one's own there is nothing."""
    from trainables.core.config.config import AlgorithmConfig

    if not issubclass(config_class, AlgorithmConfig):
        return lambda _: None
    from trainables.runtime.named_code import check_named_code

    return check_named_code


def rename_metrics(document: Document, trainable: type) -> None:
    """Write metrics by their canonical names; refuse those that never appear."""
    data = document.data
    in_env = trains_in_env(data["config"], trainable)

    def rename(holder: str, key: str) -> None:
        section = data.get(holder)
        if isinstance(section, dict) and key in section and section[key] is None:
            raise document.error(
                (holder, key), f"{holder}.{key} is empty: trials are compared by it; allowed: the "
                "name of a metric, such as episode_return_mean"
            )  # fmt: skip
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = _metric(document, (holder, key), section[key], trainable, in_env)

    rename("objective", "metric")
    for index, objective in enumerate(data.get("objectives") or []):
        if isinstance(objective, dict) and isinstance(objective.get("metric"), str):
            place = ("objectives", index, "metric")
            objective["metric"] = _metric(document, place, objective["metric"], trainable, in_env)
    rename("scheduler", "time_attr")
    data["stop"] = checked_stop(document, (), trainable, in_env)


def checked_stop(
    document: Document, root: KeyPath, trainable: type, in_env: bool
) -> dict[str, int | float]:
    """Return the stop criteria of a section by their canonical names.

    Args:
        document: The spec.
        root: The section that has them, with the config beside them; (): the spec itself.
        trainable: The class that is trained.
        in_env: Whether its training steps an environment.

    Raises:
        SpecError: No result has such a metric, or it can end nothing.
    """
    place = (*root, "stop")
    told = ".".join(map(str, place))
    stop: dict[str, int | float] = {}
    for name, value in document.at(place).items():
        here = (*place, name)
        metric = _metric(document, here, name, trainable, in_env, root)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise document.error(
                here, f"{told}: {name} = {value!r} is not a number; "
                "training ends when the metric reaches a number"
            )  # fmt: skip
        if value <= 0 and metric.startswith(_COUNTERS):
            raise document.error(
                here, f"{told}: {name} = {value!r} is not allowed; allowed: above 0, as "
                "it is counted from 0"
            )  # fmt: skip
        if metric in stop:
            raise document.error(here, f"{told}: {metric} is given twice")
        stop[metric] = value
        document.lines.setdefault((*place, metric), document.place(here))
    return stop


def _metric(
    document: Document,
    place: KeyPath,
    name: str,
    trainable: type,
    in_env: bool,
    root: KeyPath = (),
) -> str:
    told = ".".join(map(str, place[: len(root) + 1]))
    try:
        metric = canonical_metric(name, trainable)
    except SpecError as error:
        raise document.error(place, f"{told}: {error}") from None
    config: KeyPath = (*root, "config")
    if metric.startswith("evaluation/") and not document.at(config).get("evaluation_interval"):
        setting = ".".join(map(str, (*config, "evaluation_interval")))
        raise document.error(place, f"{told}: {metric} is only reported with {setting} set")
    if not in_env:
        check_reported(document, place, metric, document.data["trainable"])
    return metric


def check_mlflow(document: Document, spec: SweepSpec) -> None:
    """Refuse a password, and a model that is registered but not logged.

    The spec is copied to the sweep's folder, and to MLflow itself.
    """
    problem = why_no_tracking_uri(spec.mlflow.tracking_uri or "")
    if problem is not None:
        raise document.error(("mlflow", "tracking_uri"), f"mlflow.tracking_uri: {problem}")
    if writes_secret(spec.mlflow.tracking_uri, spec._references.get("mlflow.tracking_uri")):
        raise document.error(
            ("mlflow", "tracking_uri"),
            "mlflow.tracking_uri holds credentials, and a spec is kept in the sweep's folder; give "
            "them by the environment variables MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, or write ${env:NAME} in the URI",
        )
    if spec.mlflow.register_as and not (spec.mlflow.enabled and spec.mlflow.log_model):
        raise document.error(
            ("mlflow", "register_as"),
            f"mlflow.register_as = {spec.mlflow.register_as!r} registers the model that is logged; "
            "it needs mlflow.enabled and mlflow.log_model",
        )
