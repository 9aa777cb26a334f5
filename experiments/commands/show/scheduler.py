"""What a spec has constructed, above all its scheduler, as the Python that constructs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from analysis.results.schedulers import POPULATION
from experiments.commands.show.python_code import Call, Name, render, section_call
from experiments.schedulers.kind import Parts
from experiments.schedulers.registry import scheduler_kind
from experiments.spec.construction import Construction
from experiments.spec.schema import SweepSpec

_CHECK = "check"


def scheduler_call(spec: SweepSpec, trainable: Any, num_trials: int) -> Call:
    """The call that constructs the scheduler; `check` in it is `check_source`'s function."""
    check = Name(_CHECK) if _has_config(trainable) else None
    parts = Parts(spec, num_trials, Name("space"), _parameters, check)
    return written(scheduler_kind(spec.scheduler).construction(parts))


def check_source(spec: SweepSpec, trainable: Any) -> str:
    """A function that refuses invalid mutations; nothing where nothing is mutated."""
    if spec.scheduler.algorithm not in POPULATION or not _has_config(trainable):
        return ""
    return (
        f"def {_CHECK}(config: dict) -> None:\n"
        '    """Raises ValueError for a mutated configuration that is not valid."""\n'
        f"    {trainable.__qualname__}.config_class.from_dict(config).validate()\n"
    )


def _parameters(names: Sequence[str] | None) -> Name:
    """The searched settings of these names, in a script that has a `space`."""
    if names is None:
        return Name("space.parameters")
    return Name(f"[p for p in space.parameters if p.key in {render(names)}]")


def written(made: Construction) -> Call:
    """A construction as a call that is written, as are those inside it."""
    kwargs = {name: _written(argument) for name, argument in made.kwargs.items()}
    return Call(made.function, tuple(map(_written, made.args)), kwargs)


def _written(value: Any) -> Any:
    if isinstance(value, Construction):
        return written(value)
    if isinstance(value, BaseModel):
        return section_call(value)
    return [_written(item) for item in value] if isinstance(value, list) else value


def _has_config(trainable: Any) -> bool:
    return getattr(trainable, "config_class", None) is not None
