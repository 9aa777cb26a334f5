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
    from experiments.running.runner import resume, run
    from experiments.running.tuner import build_tuner
    from experiments.spec.schema import SweepSpec
    from experiments.sweep.load import load_spec, load_specs, make_spec
    from experiments.tracking.callback import MLflowCallback

_HOME = {
    "MLflowCallback": "tracking.callback",
    "PreflightError": "errors",
    "SpecError": "errors",
    "SweepError": "errors",
    "SweepSpec": "spec.schema",
    "build_tuner": "running.tuner",
    "load_spec": "sweep.load",
    "load_specs": "sweep.load",
    "make_spec": "sweep.load",
    "resume": "running.runner",
    "run": "running.runner",
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
