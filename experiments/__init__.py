"""How to search: from a spec to a `ray.tune.Tuner`, its results, and the best policy.

Example:
    >>> spec = load_spec("quickstart", ["num_samples=4"])
    >>> results = run(spec)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tunescape.shared_names import make_room

if TYPE_CHECKING:
    from experiments.errors import PreflightError, SpecError, SweepError
    from experiments.mlflow_callback import MLflowCallback
    from experiments.runner import resume, run
    from experiments.schema import SweepSpec
    from experiments.spec import load_spec, load_specs, make_spec
    from experiments.tuner import build_tuner

_HOME = {
    "MLflowCallback": "mlflow_callback",
    "PreflightError": "errors",
    "SpecError": "errors",
    "SweepError": "errors",
    "SweepSpec": "schema",
    "build_tuner": "tuner",
    "load_spec": "spec",
    "load_specs": "spec",
    "make_spec": "spec",
    "resume": "runner",
    "run": "runner",
}

__all__ = [
    "MLflowCallback",
    "PreflightError",
    "SpecError",
    "SweepError",
    "SweepSpec",
    "build_tuner",
    "load_spec",
    "load_specs",
    "make_spec",
    "resume",
    "run",
]

make_room()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
