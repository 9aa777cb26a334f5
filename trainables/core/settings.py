"""Declare a setting once: name, type, default, range, section and one line of documentation.

A settings class is a dataclass whose fields are made by `setting`. `Settings` gives it checked
assignment, JSON round trips and errors that name the setting, the value and what is allowed.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np


class ConfigError(ValueError):
    """A setting has an unknown name, a wrong type or a value out of range."""


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting. Everything that is shown or checked derives from it."""

    name: str
    section: str
    doc: str
    default: Any
    annotation: Any
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[Any, ...] | None = None
    schedule: bool = False
    fixed: str | None = None

    @property
    def why_fixed(self) -> str | None:
        """Why a running trial cannot take another value, as a scheduler would have it; or None."""
        if self.fixed is not None:
            return self.fixed
        return None if self.section in _MUTABLE_SECTIONS else _WHY_FIXED[self.section]

    @property
    def type(self) -> str:
        """The type as people write it, e.g. `float or schedule`."""
        names = [_type_name(option) for option in _options(self.annotation)]
        if self.schedule:
            names = [name for name in names if name != "list"] + ["schedule"]
        return " or ".join(names)

    @property
    def allowed(self) -> str:
        """Type and range in words, e.g. `float, > 0`."""
        if self.choices is not None:
            return "one of " + ", ".join(repr(choice) for choice in self.choices)
        bounds = ((">=", self.ge), (">", self.gt), ("<=", self.le), ("<", self.lt))
        limits = [f"{sign} {bound:g}" for sign, bound in bounds if bound is not None]
        return ", ".join([self.type, *limits])

    def check(self, value: Any) -> Any:
        """Return `value` (numpy scalars as Python's), or raise `ConfigError`.

        A Tune search domain passes: its samples are checked when a trial is set up.
        """
        if contains_search_domain(value):
            return value
        value = _plain(value)
        if isinstance(value, float) and value.is_integer() and not self._takes(value):
            value = int(value)  # a quantised search domain gives 64.0 where 64 is meant
        if not self._takes(value):
            raise self._error(value)
        if self.choices is not None and value is not None and value not in self.choices:
            raise self._error(value)
        if self.schedule and isinstance(value, list):
            self._check_schedule(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._check_range(value, value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, (int, float)) and not isinstance(item, bool):
                    self._check_range(item, value)
        return value

    def _takes(self, value: Any) -> bool:
        return _matches(value, self.annotation)

    def _check_schedule(self, value: list[Any]) -> None:
        points = [point for point in value if _is_schedule_point(point)]
        steps = [point[0] for point in points]
        rising = all(a < b for a, b in pairwise(steps))
        if not value or len(points) != len(value) or steps[0] != 0 or not rising:
            raise ConfigError(
                f"{self.name} = {value!r} is no schedule: write "
                "[[0, first value], [env step, value], …] with env steps that start at 0 and rise"
            )
        for point in points:
            self._check_range(point[1], value)

    def _check_range(self, number: float, shown: Any) -> None:
        inside = (
            math.isfinite(number)
            and (self.ge is None or number >= self.ge)
            and (self.gt is None or number > self.gt)
            and (self.le is None or number <= self.le)
            and (self.lt is None or number < self.lt)
        )
        if not inside:
            raise self._error(shown)

    def _error(self, value: Any) -> ConfigError:
        return ConfigError(f"{self.name} = {value!r} is not allowed; allowed: {self.allowed}")


# Of these a running trial takes another value, unless the setting itself says why not.
_MUTABLE_SECTIONS = ("training", "exploration", "optimizer", "replay")
# Why it takes none of the others.
_WHY_FIXED = {
    "environment": "results in another environment cannot be compared",
    "env_runners": "the trial's processes and environments are built with it",
    "fault_tolerance": "the trial's processes and environments are built with it",
    "learners": "the trial's resources follow from it",
    "resources": "the trial's resources follow from it",
    "python_environment": "the trial's processes are started with it",
    "model": "it is what the networks are built of",
    "callbacks": "callbacks are made when a trial is set up",
    **dict.fromkeys(
        ("evaluation", "reporting", "checkpointing", "debugging", "framework"),
        "it does not change how a trial learns",
    ),
}


def setting(
    default: Any,
    section: str,
    doc: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: Iterable[Any] | None = None,
    schedule: bool = False,
    fixed: str | None = None,
) -> Any:
    """A dataclass field that declares a setting. Mutable defaults are copied per instance.

    `fixed` says why a trial cannot change it in mid-run, e.g. that it is a network's shape.
    """
    declared = {
        "section": section,
        "doc": doc,
        "default": default,
        "ge": ge,
        "gt": gt,
        "le": le,
        "lt": lt,
        "choices": None if choices is None else tuple(choices),
        "schedule": schedule,
        "fixed": fixed,
    }
    metadata = {"setting": declared}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass
class Settings:
    """Base of every settings class: checked assignment and an exact round trip through dicts."""

    what: ClassVar[str] = "setting"  # what one entry is called in errors

    @classmethod
    @functools.cache
    def settings(cls) -> dict[str, Setting]:
        """Every declared setting by name, in order of declaration."""
        hints = typing.get_type_hints(cls)
        return {
            field.name: Setting(
                name=field.name, annotation=hints[field.name], **field.metadata["setting"]
            )
            for field in dataclasses.fields(cls)
            if "setting" in field.metadata
        }

    @classmethod
    def known_names(cls) -> Iterable[str]:
        """The names offered as the nearest to a misspelt one."""
        return cls.settings()

    @classmethod
    def unknown(cls, name: str) -> ConfigError:
        """The error for a name that is no setting, with the nearest known names."""
        near = difflib.get_close_matches(name, list(cls.known_names()), n=3, cutoff=0.6)
        likeness = [difflib.SequenceMatcher(None, n, name).ratio() for n in near]
        # A name that is much more like it than the others was meant.
        near = [n for n, like in zip(near, likeness, strict=True) if like > likeness[0] - 0.1]
        known = cls.settings()
        sectioned = cls.what == "setting"  # nested dicts such as `model` have no fluent methods
        hints = [f"{n} (in .{known[n].section}())" if sectioned and n in known else n for n in near]
        ending = f"; did you mean {' or '.join(hints)}?" if hints else ""
        return ConfigError(f"unknown {cls.what} {name!r} of {cls.__name__}{ending}")

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        """The settings that are dicts of settings."""
        return {}

    @classmethod
    def why_fixed(cls, path: Sequence[str]) -> str | None:
        """Why a running trial cannot take another value of a setting; None if it can.

        Args:
            path: The setting's name, and a name inside it if it is a dict of settings.
        """
        outer = cls.settings()[path[0]]
        nested = cls.nested_settings().get(path[0])
        if outer.why_fixed is None and nested is not None and len(path) > 1:
            return nested.why_fixed(path[1:])
        return outer.why_fixed

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check names and fixed values of a dict; search domains pass. Returns a new dict."""
        known = cls.settings()
        for name in values:
            if name not in known:
                raise cls.unknown(name)
        return {name: known[name].check(value) for name, value in values.items()}

    def __setattr__(self, name: str, value: Any) -> None:
        declared = type(self).settings().get(name)
        if declared is None:
            if name.startswith("_"):
                return object.__setattr__(self, name, value)
            raise type(self).unknown(name)
        object.__setattr__(self, name, declared.check(value))

    def to_dict(self) -> dict[str, Any]:
        """All settings as a new dict."""
        return {name: copy.deepcopy(getattr(self, name)) for name in type(self).settings()}

    def copy(self) -> Self:
        """A deep copy."""
        return copy.deepcopy(self)


def is_search_domain(value: Any) -> bool:
    """Whether `value` is a Ray Tune domain or grid search (told without importing ray)."""
    if isinstance(value, dict):
        return set(value) == {"grid_search"}
    return any(base.__module__.startswith("ray.tune.search.sample") for base in type(value).__mro__)


def contains_search_domain(value: Any) -> bool:
    """Whether a search domain is `value` or lies anywhere inside it."""
    if is_search_domain(value):
        return True
    if isinstance(value, Mapping):
        return any(contains_search_domain(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(contains_search_domain(v) for v in value)


def _plain(value: Any) -> Any:
    """Numpy scalars (Optuna and Tune sample them) and tuples as plain Python values."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


def _options(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _matches(value: Any, annotation: Any) -> bool:
    return any(_matches_one(value, option) for option in _options(annotation))


def _matches_one(value: Any, option: Any) -> bool:
    if option is Any:
        return True
    if option is None or option is type(None):
        return value is None
    origin = typing.get_origin(option)
    if origin is Literal:
        return value in typing.get_args(option)
    if option is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is list:
        (item,) = typing.get_args(option)
        return isinstance(value, list) and all(_matches(v, item) for v in value)
    if origin is dict:
        return isinstance(value, dict)
    if option is typing.Callable or origin is typing.get_origin(typing.Callable[..., Any]):
        return callable(value)
    return isinstance(value, option)


def _is_schedule_point(point: Any) -> bool:
    return isinstance(point, list) and len(point) == 2 and _matches(point, list[float])


def _type_name(option: Any) -> str:
    if option is type(None):
        return "None"
    if typing.get_origin(option) is Literal:
        return " or ".join(repr(value) for value in typing.get_args(option))
    if option is Any:
        return "any"
    origin = typing.get_origin(option)
    if origin is list:
        return "list"
    return str(getattr(origin or option, "__name__", option)).lower()
