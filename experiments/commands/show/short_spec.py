"""A spec on one screen: what it sets, without the defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.spec.schema import SweepSpec
from experiments.sweep.load import spec_data
from search_spaces.yaml_values import dump_flow, dump_yaml

_WIDTH = 96
_ALWAYS = ("name", "trainable", "objective", "stop", "num_samples")
_TAGGED = ("search", "scheduler")


def short_spec(spec: SweepSpec) -> str:
    """Return the spec as YAML that `load_spec` reads back to an equal one, without its defaults.

    A mapping is on one line, or each of its keys is.
    """
    return "\n".join(line for key, value in short_data(spec).items() for line in _lines(key, value))


def short_data(spec: SweepSpec) -> dict[str, Any]:
    """Return the spec without its defaults, as data of which `make_spec` makes an equal one."""
    whole, own = spec_data(spec), spec_data(spec, defaults=False)
    for key in _TAGGED:
        if key in own:
            own[key] = {"algorithm": whole[key]["algorithm"], **own[key]}
    shown = {key: own.get(key, whole[key]) for key in whole if key in own or key in _ALWAYS}
    if spec.objectives:  # the first of them is also `objective`
        shown["objectives"] = whole["objectives"]
        del shown["objective"]
    else:
        shown["objective"] = whole["objective"]
    return shown


def _lines(key: str, value: Any) -> Iterator[str]:
    line = _flow(key, value)
    if len(line) <= _WIDTH or not isinstance(value, dict):
        yield line
        return
    yield f"{key}:"
    for inner, item in value.items():
        yield f"  {_flow(inner, item)}"


def _flow(key: str, value: Any) -> str:
    """`key: value` on one line."""
    collection = isinstance(value, (dict, list))
    return dump_flow({key: value})[1:-1] if collection else dump_yaml({key: value}).rstrip("\n")
