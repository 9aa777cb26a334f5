"""Ray's own callbacks for other trackers, by the names that a spec's `loggers` has for them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.spec.schema import SweepSpec


@dataclass(frozen=True)
class NamedLogger:
    """A tracker that Ray has a callback for.

    Attributes:
        path: The callback, as `module:Class`.
        package: What it imports.
        extra: The extra of this project that installs that.
        defaults: What it is made with, unless the spec says something else.
    """

    path: str
    package: str
    extra: str
    defaults: Callable[[SweepSpec], dict[str, Any]]

    @property
    def missing(self) -> str:
        """Why it cannot be used here, and what installs it; "" if it can."""
        if importlib.util.find_spec(self.package) is not None:
            return ""
        install = f"pip install '{self.package.replace('_', '-')}'"
        return (
            f"needs the library {self.package}, which is not installed: {install}, "
            f"or tunescape with the extra [{self.extra}]"
        )


def _wandb(spec: SweepSpec) -> dict[str, Any]:
    from experiments.spec.paths import sweep_dir

    # A trial's run is found by its id: a resumed sweep continues it. W&B's files, of which it goes
    # on writing some when the trials have ended, lie in `wandb/` of the sweep's folder.
    options: dict[str, Any] = {
        "group": spec.name,
        "resume": "allow",
        "dir": str(sweep_dir(spec)),
    }
    if not any(os.environ.get(name) for name in ("WANDB_PROJECT_NAME", "WANDB_PROJECT")):
        options["project"] = spec.mlflow.experiment_name
    elif "WANDB_PROJECT_NAME" not in os.environ:  # Ray reads this one only, W&B the other
        options["project"] = os.environ["WANDB_PROJECT"]
    return options


def _comet(spec: SweepSpec) -> dict[str, Any]:
    options: dict[str, Any] = {"tags": [spec.name]}
    if not os.environ.get("COMET_PROJECT_NAME"):
        options["project_name"] = spec.mlflow.experiment_name
    return options


def _aim(spec: SweepSpec) -> dict[str, Any]:
    from experiments.spec.paths import storage_dir

    return {"repo": str(storage_dir(spec))}  # one for all sweeps of the folder


_RAY = "ray.air.integrations"
NAMED: dict[str, NamedLogger] = {
    "wandb": NamedLogger(f"{_RAY}.wandb:WandbLoggerCallback", "wandb", "wandb", _wandb),
    "comet": NamedLogger(f"{_RAY}.comet:CometLoggerCallback", "comet_ml", "comet", _comet),
    "aim": NamedLogger("ray.tune.logger.aim:AimLoggerCallback", "aim", "aim", _aim),
}
"""By name: Weights & Biases, Comet, Aim."""
