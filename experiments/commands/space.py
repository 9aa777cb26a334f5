"""`tunescape space`: show a search space."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from experiments.commands import shell
from experiments.spec.trainable import resolve_trainable
from experiments.terminal import say
from search_spaces.conditions import look_up, settings_of
from search_spaces.documents import SpecError
from search_spaces.domains import Choice, Domain, Grid
from search_spaces.loader import Preset, load_preset
from search_spaces.native import all_conditions
from search_spaces.parameter import Condition, Parameter, assign
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from rich.console import Console


FORMS = ("table", "yaml", "python")
_WIDTH = 98
# Each transform as Python, for a drawn value `{}`.
_EXPRESSIONS = {"one_minus": "1 - {}", "power_of_two": "2 ** {}"}


def space(
    name: Annotated[
        str,
        typer.Argument(
            help="The space of an algorithm (PPO), a preset (PPO/zoo), or a file (mine.yaml)."
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--as", help="Output format: table, yaml (for a spec), or python (for plain Tune)."
        ),
    ] = "table",
) -> None:
    """Show a search space."""
    show_space(load_preset(name), form, shell.output())


def show_space(preset: Preset, form: str, console: Console) -> None:
    """Print a search space.

    Args:
        preset: What to print.
        form: `table`, `yaml` (to paste into a spec) or `python` (for a hand-written `tune.Tuner`).
        console: Where to.

    Raises:
        SpecError: There is no such form.
    """
    if form == "table":
        console.print(_table(preset))
    elif form == "yaml":
        say(console, space_as_yaml(preset))
    elif form == "python":
        say(console, space_as_python(preset))
    else:
        raise SpecError(
            f"--as {form} is not allowed; allowed: {', '.join(FORMS)}{suggestion(form, FORMS)}"
        )


def space_as_yaml(preset: Preset) -> str:
    """Return the `search_space:` of a spec."""
    lines = [*_heading(preset), "search_space:"]
    for key, domain in preset.space.to_dict().items():
        entry = yaml.safe_dump(domain, default_flow_style=True, width=10_000, sort_keys=False)
        note = preset.notes.get(key)
        lines.append(f"  {key}: {entry.strip()}{f' # {note}' if note else ''}")
    return "\n".join(lines)


def space_as_python(preset: Preset) -> str:
    """Return a `param_space` of Tune that draws as the space does.

    Raises:
        SpecError: The space has conditions, and does not say for which trainable it is: an inactive
            setting has that trainable's default.
    """
    space, defaults = preset.space, _defaults(preset)
    entries: dict[str, Any] = {}
    for parameter in space.ordered:
        expression = _tune_expression(parameter.domain)
        if parameter.conditions:
            default = look_up(defaults, parameter.path)[1]
            expression = _conditional(
                parameter, all_conditions(parameter, space.parameters), default
            )
        assign(entries, parameter.path, (expression, preset.notes.get(parameter.key)))
    trainable = preset.trainable or "..."
    return "\n".join(
        [
            *_heading(preset),
            "from ray import tune",
            f"from trainables import {trainable}",
            "",
            "param_space = {",
            '    "env": "CartPole-v1",',
            *_python_lines(entries, 4),
            "}",
            f"tuner = tune.Tuner({trainable}, param_space=param_space)",
        ]
    )


def _defaults(preset: Preset) -> dict[str, Any]:
    """Return the settings of the trainable, if the space needs them."""
    if not any(parameter.conditions for parameter in preset.space.parameters):
        return {}
    if preset.trainable is None:
        raise SpecError(
            f"{preset.name} has conditions: name its trainable, whose defaults fill the gaps"
        )
    trainable: Any = resolve_trainable(preset.trainable)
    return settings_of(trainable.config_class())


def _heading(preset: Preset) -> list[str]:
    text = f"{preset.name}: {preset.description} {preset.source}".strip()
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


def _python_lines(entries: dict[str, Any], indent: int) -> list[str]:
    space = " " * indent
    lines = []
    for key, entry in entries.items():
        if isinstance(entry, dict):
            lines += [f'{space}"{key}": {{', *_python_lines(entry, indent + 4), f"{space}}},"]
        else:
            expression, note = entry
            lines += [f"{space}# {note}"] if note else []
            lines.append(f'{space}"{key}": {expression},')
    return lines


def _tune_expression(domain: Domain) -> str:
    """Return what is drawn, as a domain of Tune."""
    drawn = _drawn(domain)
    return drawn if drawn.startswith("tune.") else f"tune.sample_from(lambda _: {drawn})"


def _conditional(parameter: Parameter, conditions: tuple[Condition, ...], default: Any) -> str:
    drawn = _drawn(parameter.domain)
    drawn = f"{drawn}.sample()" if drawn.startswith("tune.") else drawn
    tests = []
    for condition in conditions:
        setting = "".join(f"[{key!r}]" for key in condition.path)
        tests.append(f"spec.config{setting} in {list(condition.values)!r}")
    return f"tune.sample_from(lambda spec: {drawn} if {' and '.join(tests)} else {default!r})"


def _drawn(domain: Domain) -> str:
    """Return a domain of Tune, or an expression that draws a value where Tune has none."""
    if isinstance(domain, Choice):
        values = [domain.value(searched) for searched in domain.values]
        return f"tune.{'grid_search' if isinstance(domain, Grid) else 'choice'}({values!r})"
    # Tune's own quniform rounds, which makes both ends rarer.
    is_listed = domain.kind == "quniform" or (domain.kind == "randint" and domain.transform)
    if is_listed and domain.finite:
        return f"tune.choice({[domain.value(searched) for searched in domain.finite]!r})"
    native = f"tune.{domain.kind}({', '.join(map(repr, domain.arguments()))})"
    if domain.transform is None:
        return native
    return _EXPRESSIONS[domain.transform.name].format(f"{native}.sample()")


def _table(preset: Preset) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    columns = ["Setting", "Searched as", "Values", "Note"]
    conditional = any(parameter.conditions for parameter in preset.space.parameters)
    if conditional:
        columns.insert(3, "Only when")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == "Setting")
    for parameter in preset.space.parameters:
        values, note = _values(parameter), preset.notes.get(parameter.key, "")
        cells = [parameter.key, _scale(parameter), values, "" if note == values else note]
        if conditional:
            cells.insert(3, ", ".join(map(str, parameter.conditions)))
        table.add_row(*map(Text, cells))
    heading = f"{preset.name} ({preset.trainable}): {preset.description}"
    return Group(Text(heading, style="bold"), Text(preset.source), table)


def _scale(parameter: Parameter) -> str:
    """Return how it is drawn, and of what: `loguniform of one_minus_…`."""
    domain = parameter.domain
    return (
        f"{domain.kind} of {domain.transform.label.format('…')}"
        if domain.transform
        else domain.kind
    )


def _values(parameter: Parameter) -> str:
    domain = parameter.domain
    if isinstance(domain, Choice):
        return ", ".join(str(domain.value(searched)) for searched in domain.values)
    low, high = sorted(domain.value(searched) for searched in domain.probes())
    step = f", by {domain.arguments()[2]:g}" if domain.kind == "quniform" else ""
    return f"{low:.6g} … {high:.6g}{step}"
