"""`tunescape show`: a spec with all its defaults, or as Python."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.options import ExperimentOption, SetOption, SpecArgument
from experiments.errors import SpecError

if TYPE_CHECKING:
    from experiments.spec.schema import SweepSpec


_WIDTH = 96
# It calls what `tunescape run` does, so it stays true whatever that becomes.
_SCRIPT = '''"""The sweep {name} as a script.

It trains the trials that `tunescape run` would, and leaves out what that does besides: the checks
of the machine, the export of the best policy, `final`, the report.
"""

from tunescape import build_tuner, leaderboard, make_spec

from {cluster} import ray_session, sweep_environment

spec = make_spec({data})
with sweep_environment(), ray_session(spec.resources):
    tuner = build_tuner(spec)  # a `ray.tune.Tuner`
    results = tuner.fit()
print(leaderboard(results, spec.objective.metric, spec.objective.mode))
'''


def show(
    spec: SpecArgument,
    as_: Annotated[
        str, typer.Option("--as", help="yaml: the complete spec; python: a script.")
    ] = "yaml",
    set_: SetOption = None,
    experiment: ExperimentOption = None,
) -> None:
    """Show the complete spec with inherited keys and every default, or a Python script."""
    from experiments.sweep.load import dump_spec, load_specs

    if as_ not in ("yaml", "python"):
        raise SpecError(f"--as {as_}: allowed: yaml, python")
    sweeps = load_specs(spec, set_ or [], experiment=experiment)
    if as_ == "yaml":
        typer.echo("---\n".join(dump_spec(sweep) for sweep in sweeps), nl=False)
        return
    if len(sweeps) > 1:
        names = ", ".join(sweep.name for sweep in sweeps)
        raise SpecError(
            f"{spec} is a matrix of {len(sweeps)} sweeps ({names}): choose one, e.g. with "
            "--set matrix.env=[CartPole-v1]"
        )
    typer.echo(python_source(sweeps[0]), nl=False)


def python_source(spec: SweepSpec) -> str:
    """Return a script that runs the sweep; the same seed gives the same configurations.

    Values of environment variables that may be credentials are the references to them.
    """
    from experiments.cluster.session import ray_session
    from experiments.commands.show.short_spec import short_data

    data = _literal(short_data(spec))
    return _SCRIPT.format(name=spec.name, cluster=ray_session.__module__, data=data)


def _literal(value: Any, indent: int = 0, before: str = "") -> str:
    """Plain data as a person would write it, after `before`: on one line, or an item a line."""
    if isinstance(value, dict):
        opening, closing = "{", "}"
        keys = [f"{_literal(key)}: " for key in value]
        items = [
            key + _literal(item, indent + 4, key)
            for key, item in zip(keys, value.values(), strict=True)
        ]
    elif isinstance(value, list):
        opening, closing = "[", "]"
        items = [_literal(item, indent + 4) for item in value]
    elif isinstance(value, str) and value.isprintable():
        return json.dumps(value, ensure_ascii=False)
    elif isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    else:
        return repr(value)
    line = f"{opening}{', '.join(items)}{closing}"
    if "\n" not in line and indent and indent + len(before) + len(line) <= _WIDTH:
        return line
    start = f"\n{' ' * (indent + 4)}"
    lines = "".join(f"{start}{item}," for item in items)
    return f"{opening}{lines}\n{' ' * indent}{closing}"
