"""From a YAML file, or a dict, to a checked `SweepSpec`.

Everything that can be known to be wrong before Ray starts is found here, and named with file,
line, key, value, what is allowed and the nearest known key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.legacy_spec import from_legacy, is_legacy
from experiments.schema import SweepSpec
from experiments.spec_checks import (
    check_config,
    check_env,
    check_search,
    check_space,
    check_together,
    complete_scheduler,
    join_spaces,
    refuse_unsupported,
    rename_metrics,
    take_grids_from_config,
)
from experiments.spec_shape import (
    expand_shorthands,
    require_known_keys,
    require_mapping,
    take_space_by_name,
    trainable_of,
    validate,
)
from search_spaces.documents import Document, SpecError, load_document, nearest
from search_spaces.space import SearchSpace

_FOLDER = Path(__file__).parent


def load_spec(
    path: str | Path, overrides: Iterable[str] = (), *, experiment: str | None = None
) -> SweepSpec:
    """Read and check a spec.

    Args:
        path: A YAML file, or the name of a spec that ships with the package (`quickstart`).
        overrides: Assignments such as `config.lr=3e-4`, applied before anything is checked.
        experiment: Which experiment of a file in the older form, if it holds several.

    Raises:
        SpecError: Something in the file or an override is wrong; one message says what and where.
    """
    file = find_spec(path)
    document = load_document(file)
    if is_legacy(document):
        document = from_legacy(document, experiment)
    elif experiment is not None:
        raise document.error((), "is a single sweep: --experiment does not apply")
    for assignment in overrides:
        document.set(assignment)
    document.data.setdefault("name", file.stem)
    return check_document(document)


def read_spec(path: str | Path) -> SweepSpec:
    """Read a spec that was checked when it was written (see `dump_spec`), types and keys only.

    What it names, such as an environment, need not be there any more.
    """
    return validate(load_document(path))


def make_spec(data: Mapping[str, Any], source: str = "spec") -> SweepSpec:
    """Check a spec given as a dict; see `load_spec`."""
    return check_document(Document(dict(data), source))


def dump_spec(spec: SweepSpec) -> str:
    """The spec as YAML that `load_spec` reads back to an equal one."""
    return yaml.safe_dump(_plain(spec.model_dump()), sort_keys=False, allow_unicode=True)


def spec_space(spec: SweepSpec) -> SearchSpace:
    """The spec's search space."""
    return SearchSpace.parse(spec.search_space, f"search space of {spec.name}")


def spec_names() -> list[str]:
    """The specs that ship with the package, as `load_spec` takes them."""
    files = [*_FOLDER.glob("*.yaml"), *_FOLDER.glob("tuned/**/*.yaml")]
    return sorted(file.relative_to(_FOLDER).with_suffix("").as_posix() for file in files)


def find_spec(path: str | Path) -> Path:
    """The file of a spec given by path or by the name of one that ships with the package."""
    if str(path) in spec_names() and not Path(path).is_file():
        return _FOLDER / f"{path}.yaml"
    if not Path(path).exists() and Path(path).suffix not in (".yaml", ".yml"):
        hint = nearest(path, spec_names())
        raise SpecError(
            f"{path}: no such file, and no spec of that name; "
            f"known names: {', '.join(spec_names())}{hint}"
        )
    return Path(path)


def check_document(document: Document) -> SweepSpec:
    """Check a parsed spec in the spec's own form; see `load_spec`."""
    data = document.data
    expand_shorthands(document)
    base = take_space_by_name(document)
    require_known_keys(document)
    require_mapping(document, "config")
    require_mapping(document, "search_space")
    require_mapping(document, "stop")
    trainable = trainable_of(document)
    config_class = getattr(trainable, "config_class", None)

    searched = take_grids_from_config(document)
    inline = SearchSpace.parse_document(document, ("search_space",))
    if config_class is not None:
        data["config"] = check_config(document, config_class)
        inline = check_space(document, inline, config_class)
        searched = check_space(document, searched, config_class, root=("config",))
    space = join_spaces(document, base, inline, searched)
    data["search_space"] = space.to_dict()
    rename_metrics(document)
    spec = validate(document)
    refuse_unsupported(document, spec)
    check_search(document, spec, space)
    complete_scheduler(document, spec)
    if config_class is not None:
        if "env" in config_class.settings():
            check_env(document, spec, space)
        check_together(document, spec, space, config_class)
    return spec


def _plain(value: Any) -> Any:
    """Values that YAML can hold: classes and functions by `module:qualname`."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if callable(value):
        return f"{value.__module__}:{value.__qualname__}"
    return value.item() if isinstance(value, np.generic) else value
