"""The callbacks of a spec as the Python that makes them, without the keys that they are given."""

from __future__ import annotations

from typing import Any

from experiments.commands.show.python_code import Call, Name, render
from experiments.spec.callback_classes import callback_class, wanted_callbacks
from experiments.spec.references import REFERENCE
from experiments.spec.schema import SweepSpec


def callback_calls(spec: SweepSpec) -> list[Call]:
    """A call for each of the spec's trackers and callbacks."""
    calls = []
    for wanted in wanted_callbacks(spec):
        args = {
            name: _argument(spec, f"{wanted.key}.args.{name}", value)
            for name, value in wanted.args.items()
        }
        calls.append(Call(callback_class(wanted.name), (), args))
    return calls


def environment_text(text: str) -> Name:
    """A text with `${env:…}` as an expression."""
    parts = []
    end = 0
    for found in REFERENCE.finditer(text):
        parts.append(_literal(text[end : found.start()]))
        name, default = render(found["name"]), found["default"]
        given = f"os.environ[{name}]"
        parts.append(given if default is None else f"os.environ.get({name}, {render(default)})")
        end = found.end()
    parts.append(_literal(text[end:]))
    return Name(" + ".join(part for part in parts if part))


def _argument(spec: SweepSpec, dotted: str, value: Any) -> Any:
    """A value, or the expression that reads it from the environment."""
    reference = spec._references.get(dotted)
    if reference is not None:
        text = environment_text(reference)
        return text if isinstance(value, str) else Name(f"yaml.safe_load({text})")
    if isinstance(value, dict):
        return {key: _argument(spec, f"{dotted}.{key}", item) for key, item in value.items()}
    if isinstance(value, list):
        return [_argument(spec, f"{dotted}.{index}", item) for index, item in enumerate(value)]
    return value


def _literal(text: str) -> str:
    return render(text.replace("$${", "${")) if text else ""
