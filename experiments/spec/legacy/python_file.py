"""A training that a Python file describes: a top-level `config`, and maybe `stop`.

The file is run, as `python FILE` would, so it is a file of one's own: never a URL. What it defines,
an environment say, is found by the trials under the file's name.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.errors import SpecError
from experiments.spec.legacy.spec import flat_stop
from search_spaces.documents import Document
from trainables.core.callables import callable_name
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.settings import is_search_domain

_NEEDED = (
    "expected a top-level `config`, e.g. config = PPOConfig().environment('CartPole-v1'), and "
    "`stop`, a dict of criteria, if the command line gives none"
)
# Ray's names of a kind of domain and of its sampler, and the spec's.
_DOMAINS = {
    ("Float", "_Uniform"): "uniform",
    ("Float", "_LogUniform"): "loguniform",
    ("Integer", "_Uniform"): "randint",
    ("Integer", "_LogUniform"): "lograndint",
}


def load_python_document(file: Path) -> Document:
    """Run a file, and put its config under a spec's keys.

    Raises:
        SpecError: It cannot be run, has no `config` of this package, or one that holds what a spec
            cannot.
    """
    module = _imported(file)
    config, stop = getattr(module, "config", None), getattr(module, "stop", {})
    if not isinstance(config, AlgorithmConfig):
        raise SpecError(f"{file}: {_found(config)}; {_NEEDED}")
    if config.algo_class is None:
        raise SpecError(f"{file}: {type(config).__name__} belongs to no algorithm; use PPOConfig")
    if not isinstance(stop, Mapping):
        raise SpecError(f"{file}: stop is a {type(stop).__name__}, not a dict; {_NEEDED}")
    space: dict[str, Any] = {}
    defaults = type(config).settings()
    settings = {
        name: _written(value, (name,), space, file)
        for name, value in config.items()
        if is_search_domain(value) or value != defaults[name].default
    }
    data = {
        "trainable": _name_of(config.algo_class),
        "config": {name: value for name, value in settings.items() if name not in space},
        "search_space": space,
        "stop": flat_stop(dict(stop)),
    }
    return Document(data, str(file))


def _imported(file: Path) -> Any:
    """Return the file as a module; the trials' processes import it by its name, too."""
    importlib.invalidate_caches()  # it may have been written since a folder was listed
    taken = importlib.util.find_spec(file.stem) if "." not in file.stem else None
    origin = taken.origin if taken is not None else None
    is_its_own = origin is not None and file.exists() and file.samefile(origin)
    if not file.stem.isidentifier() or (taken is not None and not is_its_own):
        raise SpecError(
            f"{file}: its name {file.stem!r} is that of {origin or 'no module'}; rename the file"
        )
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
        # Processes of a Ray that is started here have it from this one.
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = folder if not before else f"{before}{os.pathsep}{folder}"
    try:
        return importlib.import_module(file.stem)
    except SystemExit:
        raise SpecError(f"{file}: reading the file ends the command (sys.exit, argparse)") from None
    except Exception as error:  # whatever a user's code raises is theirs to read
        raise SpecError(f"{file}: {type(error).__name__}: {error}") from error


def _found(config: Any) -> str:
    if config is None:
        return "has no config"
    kind = type(config)
    if kind.__module__.startswith("ray.rllib"):
        return f"its config is RLlib's {kind.__name__}: import {kind.__name__} from trainables"
    return f"its config is a {kind.__name__}, not an AlgorithmConfig"


def _name_of(algorithm: type) -> str:
    from trainables.registry import algorithm_names, get_algorithm

    name = algorithm.__name__
    is_known = name in algorithm_names() and get_algorithm(name) is algorithm
    return name if is_known else callable_name(algorithm)


def _written(value: Any, path: tuple[str, ...], space: dict[str, Any], file: Path) -> Any:
    """Return a setting as a spec has it; domains go to the space, under their dotted names."""
    if is_search_domain(value):
        space[".".join(path)] = value if isinstance(value, dict) else _domain(value, path, file)
        return None
    if isinstance(value, dict):
        inner = {key: _written(v, (*path, str(key)), space, file) for key, v in value.items()}
        return {key: v for key, v in inner.items() if ".".join((*path, str(key))) not in space}
    if isinstance(value, (list, tuple)):
        return [_written(item, path, space, file) for item in value]
    if callable(value):
        return callable_name(value)
    return value


def _domain(value: Any, path: tuple[str, ...], file: Path) -> dict[str, Any]:
    """One of Ray Tune's domains as the spec writes it."""
    kind, sampler = type(value).__name__, value.get_sampler()
    if kind == "Categorical":
        return {"choice": list(value.categories)}
    step = getattr(sampler, "q", None)
    inner = type(sampler if step is None else sampler.get_sampler()).__name__
    name = _DOMAINS.get((kind, inner))
    if name is None or (step is not None and name not in ("uniform", "randint")):
        raise SpecError(
            f"{file}: {'.'.join(path)}: {value!r} cannot be written in a spec; allowed: uniform, "
            "quniform, loguniform, randint, qrandint, lograndint, choice and grid_search"
        )
    if step is not None:
        return {"quniform": [value.lower, value.upper, step]}
    return {name: [value.lower, value.upper]}
