"""What a name that is nothing here was meant to be: a key of a dict, another library's name."""

from __future__ import annotations

from typing import NamedTuple

from trainables.core.config.reference import compatibility
from trainables.core.config.reference.other_libraries import SETTINGS, Hint
from trainables.core.config.reference.who_has import who_has
from trainables.core.config.settings import Settings
from trainables.core.suggestions import nearest_name


class Found(NamedTuple):
    """The setting that a name stands for.

    Attributes:
        path: The setting, or `dict.name` of one inside a dict of settings; "" if there is none.
        words: What to write instead, or why there is nothing.
    """

    path: str
    words: str


def setting_hint(config_class: type[Settings], name: str) -> Found | None:
    """What a name that the config class does not know is there; None if nobody calls anything so.

    A name may be slightly misspelt, or written with hyphens.
    """
    if name in compatibility.ALIASES:  # only a constructor takes no older name
        path = compatibility.ALIASES[name]
        return Found(path, f"it is an older name of {_written(config_class, path)}")
    hints = SETTINGS.get(_spelled(config_class, name), ())
    hints += tuple(Hint(f"{outer}.{name}") for outer in _dicts_with(config_class, name))
    for hint in hints:
        if not hint.setting:
            return Found("", hint.note)
        if _why_not(config_class, hint.setting) is None:
            return Found(hint.setting, f"here it is {_told(config_class, hint)}")
    if not hints:
        return None
    path, write = hints[0].setting, hints[0].write or _example(hints[0].setting)
    return Found(path, f"it would be {write}: {_why_not(config_class, path)}")


def _dicts_with(config_class: type[Settings], name: str) -> list[str]:
    """Return the settings that are dicts with this key, one of each kind."""
    nested = reversed(config_class.nested_settings().items())
    first = {inner: outer for outer, inner in nested if name in inner.settings()}
    return list(reversed(first.values()))


def _spelled(config_class: type[Settings], name: str) -> str:
    """Return the other library's name that is meant, unless one of ours is as much like it."""
    name = name.replace("-", "_")
    if name in SETTINGS:
        return name
    known = [*config_class.known_names(), *SETTINGS]
    return nearest_name(name.lower(), known, cutoff=0.8) or name


def _why_not(config_class: type[Settings], path: str) -> str | None:
    """Return why the algorithm does without a setting; None if it has it."""
    algorithm = config_class.__name__.removesuffix("Config")
    outer, _, inner = path.partition(".")
    if outer not in config_class.settings():
        having = who_has(outer)
        return f"a setting of {having}, not of {algorithm}" if having else "no setting of it"
    if outer in config_class.without:
        return f"it has no effect on {algorithm}: {config_class.without[outer]}"
    return config_class.why_not_inside(outer, inner) if inner else None


def _told(config_class: type[Settings], hint: Hint) -> str:
    """Return what to write, where, what it is, and what to mind."""
    outer, _, inner = hint.setting.partition(".")
    declared = config_class.settings()[outer]
    doc = declared.doc
    if inner:
        doc = config_class.nested_settings()[outer].settings()[inner].doc
    told = f"{hint.write or _example(hint.setting)} (in .{declared.section}(): {doc})"
    return f"{told}; {hint.note}" if hint.note else told


def _written(config_class: type[Settings], path: str) -> str:
    known = config_class.settings()
    return f"{path} (in .{known[path].section}())" if path in known else path


def _example(path: str) -> str:
    outer, _, inner = path.partition(".")
    return f"{outer}={{'{inner}': …}}" if inner else outer
