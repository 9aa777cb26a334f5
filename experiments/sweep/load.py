"""From a YAML file, or a dict, to a checked `SweepSpec`.

Everything that can be known to be wrong before Ray starts is found here, and named with file,
line, key, value, what is allowed and the nearest known key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.activity import doing
from experiments.schedulers.kind import check_pair, check_scheduler
from experiments.search.kind import check_search
from experiments.spec.callback_classes import check_callbacks
from experiments.spec.compose import compose
from experiments.spec.files import find_spec, is_python_file
from experiments.spec.legacy.spec import from_legacy, is_legacy
from experiments.spec.matrix import KEY, expand_matrix
from experiments.spec.no_env import settle_defaults, trains_in_env
from experiments.spec.overrides import apply_overrides
from experiments.spec.paths import settle_paths
from experiments.spec.recorded_data import settle_inputs, settle_record
from experiments.spec.references import (
    escaped,
    expand_references,
    expand_shared_references,
    put_references,
)
from experiments.spec.remote import (
    is_url,
    load_remote_document,
    name_of,
    refuse_foreign,
    refuse_foreign_values,
)
from experiments.spec.schema import SweepSpec
from experiments.spec.shape import (
    config_class_of,
    expand_shorthands,
    require_known_keys,
    require_mapping,
    take_space_by_name,
    trainable_of,
    validate,
)
from experiments.sweep.build_checks import check_build
from experiments.sweep.config_checks import (
    check_config,
    check_mlflow,
    check_space,
    check_together,
    join_spaces,
    rename_metrics,
    settle_conditions,
    take_grids_from_config,
)
from experiments.sweep.env_checks import check_env
from experiments.sweep.estimate_checks import check_estimates
from experiments.sweep.record_checks import check_record
from experiments.sweep.trainable_checks import check_final, check_seeds, settle_trainable
from search_spaces.documents import Document, SpecError, load_document
from search_spaces.space import SearchSpace
from search_spaces.yaml_values import dump_yaml


def load_spec(
    path: str | Path, overrides: Iterable[str] = (), *, experiment: str | None = None
) -> SweepSpec:
    """Read and check a spec of one sweep.

    Args:
        path: A YAML file, its http(s) URL, or the name of a spec that ships with the package
            (`quickstart`). RLlib's form, `name: {run: …}`, is read too, and a Python file with a
            top-level `config`, which is run.
        overrides: Assignments such as `config.lr=3e-4`, applied before anything is checked.
        experiment: Which experiment of a file in the older form, if it holds several.

    Raises:
        SpecError: Something in the file or an override is wrong; one message says what and where.
    """
    return check_document(_read(path, overrides, experiment))


def load_specs(
    path: str | Path,
    overrides: Iterable[str] = (),
    *,
    experiment: str | None = None,
    first: Callable[[Document], None] | None = None,
) -> list[SweepSpec]:
    """Read and check a spec that may have a `matrix`: one spec for each of its combinations.

    See `load_spec`; a spec without a matrix gives a list of one.

    Args:
        path: See `load_spec`, as the next two.
        overrides: See `load_spec`.
        experiment: See `load_spec`.
        first: Called with what was read before any of it is checked; may raise.
    """
    document = _read(path, overrides, experiment)
    if first is not None:
        first(document)
    if KEY not in document.data:
        return [check_document(document)]
    expand_shared_references(document)
    return [_check_combination(combination) for combination in expand_matrix(document)]


def _read(path: str | Path, overrides: Iterable[str], experiment: str | None) -> Document:
    if is_url(path):
        if is_python_file(path):
            raise SpecError(
                f"{path}: a Python file is run, so it is not fetched: download it, read it, and "
                "train it from there"
            )
        document, name = load_remote_document(str(path)), name_of(str(path))
    elif is_python_file(path):
        from experiments.spec.legacy.python_file import load_python_document  # it takes torch

        file = find_spec(path)
        document, name = load_python_document(file), file.stem
    else:
        file = find_spec(path)
        document, name = compose(load_document(file), file.parent), file.stem
    if is_legacy(document):
        document = from_legacy(document, experiment)
    elif experiment is not None:
        raise document.error((), "is a single sweep: --experiment does not apply")
    apply_overrides(document, overrides)
    document.data.setdefault("name", name)
    return document


def _check_combination(document: Document) -> SweepSpec:
    name = document.data["name"]
    try:
        return check_document(document)
    except SpecError as error:
        raise SpecError(f"{error} (in the matrix's sweep {name})") from None


def read_spec(path: str | Path) -> SweepSpec:
    """Read a spec that was checked when it was written (see `dump_spec`), types and keys only.

    What it names, such as an environment, need not be there any more.
    """
    document = load_document(path)
    references = expand_references(document)
    spec = validate(document)
    spec._references = references
    return spec


def make_spec(data: Mapping[str, Any], source: str = "spec") -> SweepSpec:
    """Check a spec given as a dict; see `load_spec`."""
    return check_document(compose(Document(dict(data), source), Path.cwd()))


def dump_spec(spec: SweepSpec) -> str:
    """Return the spec as YAML that `load_spec` reads back to an equal one.

    It holds the values of environment variables, except for keys that may be credentials
    (`experiments.spec.references.CREDENTIALS`): those are references as they were written.
    """
    return dump_yaml(spec_data(spec))


def spec_data(spec: SweepSpec, *, defaults: bool = True) -> dict[str, Any]:
    """Return the spec as plain data without credentials: what may be written to disk, or shown.

    Args:
        spec: The spec.
        defaults: Whether what is at its default is there too.
    """
    data: dict[str, Any] = _plain(spec.model_dump(exclude_defaults=not defaults))
    put_references(data, spec._references)
    return data


def spec_space(spec: SweepSpec) -> SearchSpace:
    """Return the spec's search space."""
    return SearchSpace.parse(spec.search_space, f"search space of {spec.name}")


def check_document(document: Document) -> SweepSpec:
    """Check a parsed spec in the spec's own form; see `load_spec`."""
    return _check(document, expand_references(document))


def _check(document: Document, references: dict[str, str]) -> SweepSpec:
    data = document.data
    if KEY in data:
        raise document.error(
            (KEY,), "a matrix is several sweeps: use `tunescape run`, or load_specs in Python"
        )
    expand_shorthands(document)
    is_foreign = is_url(document.source)
    if is_foreign:
        refuse_foreign(document)
    require_known_keys(document)
    base = take_space_by_name(document)
    require_mapping(document, "config")
    require_mapping(document, "search_space")
    require_mapping(document, "stop")
    settle_record(document)
    settle_inputs(document)
    config_class = config_class_of(document)
    searched = take_grids_from_config(document)
    inline = SearchSpace.parse_document(document, ("search_space",))
    if is_foreign:
        written = (("search_space", inline), ("config", searched))
        refuse_foreign_values(document, config_class, written)
    if config_class is not None:
        data["config"] = check_config(document, config_class)
        inline = check_space(document, inline, config_class)
        searched = check_space(document, searched, config_class, root=("config",))
    space = join_spaces(document, base, inline, searched)

    doing("loading the algorithm")
    trainable = trainable_of(document)
    config_class = getattr(trainable, "config_class", None)
    space = settle_conditions(document, space, inline.merged(searched), config_class)
    data["search_space"] = space.to_dict()
    rename_metrics(document, trainable)
    spec = validate(document)
    spec._references = references
    if not trains_in_env(spec.config, trainable):
        settle_defaults(document, spec)
    check_estimates(document, spec, space)
    trainable = settle_trainable(document, spec, trainable)
    check_pair(document, spec)
    check_mlflow(document, spec)
    check_callbacks(document, spec)
    check_search(document, spec, space, config_class)
    check_scheduler(document, spec, space, trainable)
    check_seeds(document, spec, space, trainable)
    check_final(document, spec, space, trainable)
    check_record(document, spec)
    if config_class is not None:
        if "env" in config_class.settings():
            check_env(document, spec, space)
        check_together(document, spec, space, config_class)
        check_build(document, spec, space, trainable)
    settle_paths(spec)
    return spec


def _plain(value: Any) -> Any:
    """Values that YAML can hold: classes and functions by `module:qualname`."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if callable(value):
        return f"{value.__module__}:{value.__qualname__}"
    return value.item() if isinstance(value, np.generic) else value
