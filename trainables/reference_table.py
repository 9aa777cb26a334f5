"""The tables in settings.md of every setting and method of the reference, made from the code.

Run `python -m trainables.reference_table --write` after a change of settings; without `--write`
it prints the tables.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from trainables import registry
from trainables.algorithm import Algorithm
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ALIASES, MODEL_REFUSED, ModelConfig, OptimizerConfig
from trainables.core.config.policies import LeagueConfig
from trainables.core.config.reference import compatibility
from trainables.core.config.reference.defaults import NOT_GIVEN, defaults_of, defaults_of_model
from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.config.settings import Setting
from trainables.core.generated_part import GeneratedPart, anchor, row, run_command

_HEADER = "| Name | Status | Allowed | Default | Meaning |\n|---|---|---|---|---|"
_METHOD_HEADER = "| Name | Status | Meaning |\n|---|---|---|"
_LONG = 60  # characters of a value that a cell still shows
# Attributes that are no methods; what their types say of themselves means nothing here.
_DATA = (str, bool, tuple, frozenset, Mapping, type, type(None))


def reference_table() -> str:
    """Return all tables as Markdown, after links to them."""
    blocks = [_section(section) for section in _sections()]
    blocks += [_algorithm(name) for name in registry.algorithm_names()]
    blocks.append(_model())
    blocks.append(_nested("optimizer", OptimizerConfig.settings()))
    blocks.append(_nested("exploration_config", ExplorationConfig.settings()))
    blocks.append(_nested("league", LeagueConfig.settings()))
    blocks.append(_nested("replay_buffer_config", ReplayBufferConfig.settings()))
    blocks.append(_methods())
    titles = (block.partition("\n")[0].removeprefix("## ") for block in blocks)
    links = " · ".join(f"[{title}](#{anchor(title)})" for title in titles)
    return "\n\n".join([links, *blocks])


PAGE = Path(__file__).with_name("settings.md")
PART = GeneratedPart(PAGE, "reference table", "trainables.reference_table", reference_table, 600)


def _sections() -> list[str]:
    """Return sections in the order in which the config class has its fluent methods."""
    used = {declared.section for declared in AlgorithmConfig.settings().values()}
    for table in (
        compatibility.COMPOSITES,
        compatibility.CONSTANTS,
        compatibility.PLANNED,
        compatibility.REFUSED,
    ):
        used |= {entry.section for entry in table.values()}
    return [name for name in vars(AlgorithmConfig) if name in used]


def _section(section: str) -> str:
    known = AlgorithmConfig.settings()
    rows = [_setting(declared) for declared in known.values() if declared.section == section]
    rows += _aliases({name for name, declared in known.items() if declared.section == section})
    rows += [
        row(f"`{name}`", "alias of several", "dict", "", composite.meaning)
        for name, composite in compatibility.COMPOSITES.items()
        if composite.section == section
    ]
    rows += [
        row(
            f"`{name}`",
            "constant",
            _values((constant.value, *_asking_nothing(name))),
            "",
            constant.why,
        )
        for name, constant in compatibility.CONSTANTS.items()
        if constant.section == section
    ]
    planned = {n: p.feature for n, p in compatibility.PLANNED.items() if p.section == section}
    refused = {n: r.why for n, r in compatibility.REFUSED.items() if r.section == section}
    rows += _grouped("planned", planned, defaults_of) + _grouped("refused", refused, defaults_of)
    return _table(f"## `.{section}()`", _HEADER, rows)


def _algorithm(name: str) -> str:
    """Return what an algorithm adds to the base class, changes in it, and does without."""
    config_class = registry.get_algorithm(name).config_class
    base, own, without = AlgorithmConfig.settings(), config_class.settings(), config_class.without
    changed = [declared for declared in own.values() if base.get(declared.name) != declared]
    rows = [_setting(declared) for declared in changed if declared.name not in without]
    rows += _aliases(set(own) - set(base) - set(without))
    rows += [_alias(old, (new,)) for old, new in config_class.composites.items()]
    rows += _grouped("refused", without, defaults_of)
    return _table(f"## {name}: `.training()`", _HEADER, rows)


def _model() -> str:
    rows = [_alias(old, new) for old, new in ALIASES.items()]
    rows += _grouped("refused", MODEL_REFUSED, defaults_of_model)
    return _nested("model", ModelConfig.settings(), rows)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _nested(name: str, known: Mapping[str, Setting], more: Iterable[str] = ()) -> str:
    rows = [*(_setting(declared) for declared in known.values()), *more]
    return _table(f"## the dict `{name}`", _HEADER, rows)


def _methods() -> str:
    rows = [
        row(f"`{old}`", f"alias of `{new}`", "")
        for old, new in compatibility.METHOD_ALIASES.items()
    ]
    for owner in (Algorithm, AlgorithmConfig):
        rows += [row(f"`{owner.__name__}.{n}`", "supported", doc) for n, doc in _own(owner)]
    tunes = [f"`{n}`" for n in _public(tune.Trainable) if _is_tunes(n)]
    rows.append(row(", ".join(tunes), "supported", "of `tune.Trainable`"))
    rows += [row(*cells) for cells in _grouped_names("refused", compatibility.METHODS_REFUSED)]
    return _table("## methods of `Algorithm` and `AlgorithmConfig`", _METHOD_HEADER, rows)


def _own(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties that we define, with their first lines."""
    not_here = {*compatibility.METHODS_REFUSED, *compatibility.METHOD_ALIASES}
    for name in _public(owner):
        if name in not_here or (owner is Algorithm and _is_tunes(name)):
            continue
        doc = inspect.getdoc(getattr(owner, name)) or ""
        yield name, doc.partition("\n")[0]


def _public(owner: type) -> list[str]:
    fields = owner.settings() if issubclass(owner, AlgorithmConfig) else {}
    return [
        name
        for name in dir(owner)
        if not name.startswith("_")
        and name not in fields
        and not isinstance(getattr(owner, name), _DATA)
    ]


def _is_tunes(name: str) -> bool:
    """Tell whether `Algorithm` has a method as Tune wrote it."""
    theirs = inspect.getattr_static(tune.Trainable, name, None)
    same = theirs is not None and theirs is inspect.getattr_static(Algorithm, name)
    return same and name not in compatibility.METHODS_REFUSED


def _setting(declared: Setting) -> str:
    return row(
        f"`{declared.name}`",
        "supported",
        declared.allowed,
        f"`{declared.default!r}`",
        declared.doc,
    )


def _aliases(names: set[str]) -> list[str]:
    return [_alias(old, (new,)) for old, new in compatibility.ALIASES.items() if new in names]


def _alias(old: str, new: Iterable[str]) -> str:
    return row(f"`{old}`", f"alias of {_code(new)}", "", "", "")


def _grouped(
    status: str, reasons: Mapping[str, str], defaults: Callable[[str], tuple[Any, ...]]
) -> list[str]:
    """Return a row for names with the same reason and the same values that do nothing."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, why in reasons.items():
        groups.setdefault((why, _values(defaults(name))), []).append(name)
    return [row(_code(names), status, values, "", why) for (why, values), names in groups.items()]


def _values(values: Iterable[Any]) -> str:
    """Return values in words, the long ones by what they are."""
    shown = dict.fromkeys(f"`{value!r}`" for value in values)
    short = [text for text in shown if len(text) < _LONG]
    return ", ".join([*short, *(["the reference's default"] if len(short) < len(shown) else [])])


def _asking_nothing(name: str) -> tuple[Any, ...]:
    return tuple(value for value in defaults_of(name) if value != NOT_GIVEN)


def _grouped_names(status: str, reasons: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the cells of a row for names with the same reason."""
    groups: dict[str, list[str]] = {}
    for name, why in reasons.items():
        groups.setdefault(why, []).append(f"`{name}`")
    return [(", ".join(names), status, why) for why, names in groups.items()]


def _table(title: str, header: str, rows: Iterable[str]) -> str:
    return "\n".join([title, "", header, *rows])


if __name__ == "__main__":
    run_command([PART])
