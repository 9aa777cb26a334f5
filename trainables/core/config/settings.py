"""Declare a setting once: name, type, default, range, section and one line of documentation.

A settings class is a dataclass whose fields are made by `setting`. `Settings` gives it checked
assignment, JSON round trips and errors that name the setting, the value and what is allowed.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np

from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.suggestions import did_you_mean, nearest_names

MOST_ACTORS = 100_000  # of one kind: each is a bundle in the request for a trial's resources
MOST_SLOTS = 100_000  # of one process
MOST_ROWS = 10**9  # held at once: of CartPole's four numbers each, 16 GB


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
    harmless: bool | tuple[float, float] | Callable[[Any], bool] | None = None
    risk: str | None = None
    feature: str | None = None

    @property
    def is_code(self) -> bool:
        """Whether its text, too, is the name of code."""
        return self.risk == CODE

    @property
    def why_trust(self) -> str:
        """What a value that is not harmless can do, in words."""
        said = self.risk or "it is not among what is harmless"
        if isinstance(self.harmless, tuple):
            low, high = self.harmless
            return f"{said}; without trust: {low:g} to {high:g}"
        return said

    def is_harmless(self, value: Any) -> bool:
        """Tell whether a checkpoint that nobody vouches for may set this value; see `setting`."""
        if isinstance(self.harmless, bool):
            return self.harmless or _same(value, self.default)
        if _same(value, self.default):
            return True
        if callable(self.harmless):
            return self.harmless(value)
        if self.choices is not None:
            return value is None or value in self.choices
        if isinstance(value, str):
            return any(
                value in typing.get_args(option)
                for option in _options(self.annotation)
                if typing.get_origin(option) is Literal
            )
        if isinstance(self.harmless, tuple):
            return is_numbers(value, *self.harmless)
        return self.section in _HARMLESS_SECTIONS and is_numbers(value)

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
        if isinstance(value, float) and value.is_integer() and not _matches(value, self.annotation):
            value = int(value)  # a quantised search domain gives 64.0 where 64 is meant
        if not _matches(value, self.annotation):
            raise self._error(value)
        if self.choices is not None and value is not None and value not in self.choices:
            raise self._error(value)
        if self.schedule and isinstance(value, list):
            self._check_schedule(value)
        else:
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, (int, float)) and not isinstance(item, bool):
                    self._check_range(item, value)
        return value

    def _check_schedule(self, value: list[Any]) -> None:
        points = [p for p in value if _matches(p, list[float]) and len(p) == 2]
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
    "multi_agent": "policies are made when a trial is set up",
    "offline_data": "what a trial reads from and writes to is opened when it is set up",
    **dict.fromkeys(
        ("evaluation", "reporting", "checkpointing", "debugging", "framework"),
        "it does not change how a trial learns",
    ),
}

# Where a number or a boolean is harmless by itself. Elsewhere it decides about processes, resources
# or compilers, and the setting says whether, and how far, it is harmless.
_HARMLESS_SECTIONS = (
    *_MUTABLE_SECTIONS,
    "environment",
    "fault_tolerance",
    "model",
    "reporting",
    "checkpointing",
    "debugging",
)

# Nobody means a number beyond it, and loops and memory follow from some.
_LARGE = 1e12

# What a value can do, for settings of which a checkpoint may not give any.
CODE = "code that would be imported"
PROCESSES = "processes that would be started"
RESOURCES = "resources that would be taken"
MEMORY = "memory that would be taken"
FOLDER = "a folder that would be written to"
VARIABLES = "environment variables that would be set"


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
    harmless: bool | tuple[float, float] | Callable[[Any], bool] | None = None,
    risk: str | None = None,
) -> Any:
    """Return a dataclass field that declares a setting. Mutable defaults are copied per instance.

    What a stranger's checkpoint may set is what is harmless: the default, one of `choices`, and, in
    the sections that are about learning, numbers, booleans and lists of them. Anything else needs
    trust, unless `harmless` says otherwise.

    Args:
        default: Of every algorithm that does not declare it anew.
        section: The fluent method that sets it.
        doc: One line, with unit and symbol.
        ge: Bound of a number, or of each number in a list; so are the next three.
        gt: See `ge`.
        le: See `ge`.
        lt: See `ge`.
        choices: All values that there are.
        schedule: Whether `[[0, value], [env step, value], …]` is allowed.
        fixed: Why a trial cannot change it in mid-run, e.g. that it is a network's shape.
        harmless: Whether any value that passes the checks is, or the first and last number that
            is, or a function that tells of a value; None: what section and type say.
        risk: What other values can do, in words. `CODE`: its texts are names of code.
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
        "harmless": False if harmless is None and risk is not None else harmless,
        "risk": risk,
    }
    metadata = {"setting": declared}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass
class Settings:
    """Base of every settings class: checked assignment and an exact round trip through dicts."""

    feature: ClassVar[str | None] = None  # which says what the settings of a section mean
    what: ClassVar[str] = "setting"  # what one entry is called in errors
    also_called: ClassVar[str] = ""  # the dict by which other libraries' names are known
    # Settings of a base class that a subclass does without, each with the reason.
    without: ClassVar[dict[str, str]] = {}

    def __new__(cls, *args: Any, **values: Any) -> Self:
        """Refuse an unknown name in the constructor as everywhere else, with the nearest one."""
        for name in values:
            if name not in cls.settings() and name not in inspect.signature(cls).parameters:
                raise cls.unknown(name)
        return super().__new__(cls)

    @classmethod
    @functools.cache
    def settings(cls) -> dict[str, Setting]:
        """Every declared setting by name, in order of declaration."""
        hints = typing.get_type_hints(cls)
        return {
            field.name: Setting(
                name=field.name,
                annotation=hints[field.name],
                feature=cls._feature_of(field.name),
                **cls._as_vouched_for(declared, field.name),
            )
            for field in dataclasses.fields(cls)
            if (declared := _declaration(cls, field)) is not None
        }

    @classmethod
    def _feature_of(cls, name: str) -> str | None:
        """Return the feature that says what a setting means; None: the core does."""
        for base in cls.__mro__:
            field = base.__dict__.get("__dataclass_fields__", {}).get(name)
            if field is not None and "feature" in field.metadata:
                return str(field.metadata["feature"])
        return None

    @classmethod
    def _as_vouched_for(cls, own: dict[str, Any], name: str) -> dict[str, Any]:
        """Return a declaration with what the nearest one that says so says of what is harmless.

        With it goes the upper bound. A class that declares a setting anew for another default need
        repeat neither.
        """
        for base in cls.__mro__:
            field = base.__dict__.get("__dataclass_fields__", {}).get(name)
            declared = {} if field is None else field.metadata.get("setting", {})
            if declared.get("harmless") is not None or declared.get("risk") is not None:
                le = declared["le"] if own["le"] is None else own["le"]
                return {**own, "harmless": declared["harmless"], "risk": declared["risk"], "le": le}
        return own

    @classmethod
    def known_names(cls) -> Iterable[str]:
        """Return the names offered as the nearest to a misspelt one."""
        return cls.settings()

    @classmethod
    def _called_now(cls, name: str) -> str:
        """Return the setting that one of `known_names` stands for."""
        return name

    @classmethod
    def unknown(cls, name: str) -> ConfigError:
        """Return the error for a name that is no setting, with what was probably meant."""
        return ConfigError(f"unknown {cls.what} {name!r} of {cls.__name__}{cls.hint(name)}")

    @classmethod
    def hint(cls, name: str) -> str:
        """Return what a name that is no setting was probably meant to be, to end an error with."""
        here = feature("reference").inside(cls.also_called, name) if cls.also_called else None
        if here is not None:
            return f"; here it is {here}"
        near = nearest_names(name, cls.known_names(), most=3, within=0.1)
        near = list(dict.fromkeys(map(cls._called_now, near)))
        known = cls.settings()
        sectioned = cls.what == "setting"  # nested dicts such as `model` have no fluent methods
        sections = {n: f"in .{known[n].section}()" for n in near if sectioned and n in known}
        return did_you_mean(near, sections)

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        """Return the settings that are dicts of settings."""
        return {}

    @classmethod
    def settings_inside(cls, name: str) -> type[Settings] | None:
        """Return the settings that a dict given as a setting consists of, if it does."""
        return cls.nested_settings().get(name)

    @classmethod
    def why_not_inside(cls, outer: str, inner: str) -> str | None:
        """Return why a setting inside a dict of them has no effect here; None if it has one."""
        return None

    @classmethod
    def why_fixed(cls, path: Sequence[str]) -> str | None:
        """Return why a running trial cannot take another value of a setting; None if it can.

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

    @classmethod
    def of(cls, values: Mapping[str, Any] | Self) -> Self:
        """Return the settings of a dict, checked; an object of this class stays what it is.

        Raises:
            ConfigError: for a name or value that is not allowed.
        """
        if isinstance(values, cls):
            return values
        assert isinstance(values, Mapping)
        made = cls()
        for name, value in cls.check(values).items():
            object.__setattr__(made, name, value)
        made._given = dict(values)
        return made

    @property
    def given(self) -> dict[str, Any]:
        """What `of` was given, e.g. to be stored: without defaults, which may change."""
        return dict(self.__dict__.get("_given", {}))

    def __setattr__(self, name: str, value: Any) -> None:
        declared = type(self).settings().get(name)
        if declared is None:
            if name.startswith("_"):
                return object.__setattr__(self, name, value)
            raise type(self).unknown(name)
        object.__setattr__(self, name, declared.check(value))

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as a new dict."""
        return {name: copy.deepcopy(getattr(self, name)) for name in type(self).settings()}

    def copy(self) -> Self:
        """Return a deep copy."""
        return copy.deepcopy(self)


C = TypeVar("C", bound=type)


def gathers(*sections: type[Settings]) -> Callable[[C], C]:
    """Return a decorator that gives a class the fields of sections, behind those of its own.

    Below `dataclass`, which makes fields of them.

    Args:
        sections: Classes of declarations, in the order that the settings have.
    """

    def decorated(gathering: C) -> C:
        annotations: dict[str, Any] = {}
        for section in sections:
            hints = typing.get_type_hints(section)  # found there, and not in the other module
            for field in dataclasses.fields(section):
                more = {} if section.feature is None else {"feature": section.feature}
                annotations[field.name] = hints[field.name]
                copied = dataclasses.field(
                    default=field.default,
                    default_factory=field.default_factory,
                    metadata={**field.metadata, **more},
                    kw_only=True,
                )
                setattr(gathering, field.name, copied)
        gathering.__annotations__ = gathering.__annotations__ | annotations
        return gathering

    return decorated


def _declaration(cls: type, field: dataclasses.Field[Any]) -> dict[str, Any] | None:
    """Return what `setting` said of a field; None if it is no setting.

    A plain field, as a user's subclass may have, is one of `.training()`, or the setting of that
    name with another default.
    """
    if "setting" in field.metadata:
        said: dict[str, Any] | None = field.metadata["setting"]
        return said
    above = [base.__dict__.get("__dataclass_fields__", {}).get(field.name) for base in cls.__mro__]
    inherited = [one.metadata["setting"] for one in above if one and "setting" in one.metadata]
    default = field.default
    # Not compared with MISSING: of a script's class, an actor has another object of that kind.
    if callable(field.default_factory):
        default = field.default_factory()
    return {"section": "training", "doc": "", **(inherited or [{}])[0], "default": default}


def is_given(settings: Settings, name: str) -> bool:
    """Tell whether a setting has another value than its default, and than the reference's."""
    value = getattr(settings, name)
    is_own = value != type(settings).settings()[name].default
    return is_own and not feature("reference").is_default(name, value)


def refuse_given(settings: Settings, name: str, others: str) -> None:
    """Refuse a setting that has no effect with what others are, unless it is a default.

    Raises:
        ConfigError: naming both.
    """
    if is_given(settings, name):
        raise ConfigError(f"{name} = {getattr(settings, name)!r} has no effect with {others}")


NOT_GIVEN = -1
"""What the reference has for a name that it no longer reads."""


class Named(NamedTuple):
    """A class or function of the reference, told by its name, since it is not imported."""

    name: str

    def __repr__(self) -> str:
        return self.name


SAY_NOTHING: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            "env_task_fn",
            "always_attach_evaluation_results",
            "use_critic",
            "policy_map_cache",
            "replay_mode",
        ),
        (NOT_GIVEN,),
    ),
    "evaluation_config": (None,),
    "lr": (None,),
    "num_cpus_per_learner": ("auto",),
    "callbacks_class": (Named("DefaultCallbacks"), Named("RLlibCallback")),
    "policy_mapping_fn": (Named("DEFAULT_POLICY_MAPPING_FN"),),
}
"""Of settings that are here; the others are in `core.config.reference.defaults`."""


def is_one_of(defaults: tuple[Any, ...], value: Any) -> bool:
    """Tell whether a value is one of these."""
    return any(_is_same(value, default) for default in defaults)


def _is_same(value: Any, default: Any) -> bool:
    """Tell whether they are equal; numbers whatever their type, but `True` is not 1."""
    if isinstance(default, Named):
        return _last_name(value) == default.name
    if isinstance(default, dict):
        return (
            isinstance(value, Mapping)
            and set(value) == set(default)
            and all(_is_same(value[key], default[key]) for key in default)
        )
    if isinstance(default, list):
        return isinstance(value, (list, tuple)) and list(value) == default
    if default is None or isinstance(default, bool):
        return value is default
    is_plain = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    return is_plain and bool(value == default)


def _last_name(value: Any) -> str:
    """Return the last part of the name of a class or function, which may be given as text."""
    text = value if isinstance(value, str) else getattr(value, "__qualname__", "")
    return text.replace(":", ".").rpartition(".")[2]


def is_search_domain(value: Any) -> bool:
    """Tell whether `value` is a Ray Tune domain or grid search (told without importing ray)."""
    if isinstance(value, dict):
        return set(value) == {"grid_search"}
    return any(base.__module__.startswith("ray.tune.search.sample") for base in type(value).__mro__)


def contains_search_domain(value: Any) -> bool:
    """Tell whether a search domain is `value` or lies anywhere inside it."""
    if is_search_domain(value):
        return True
    if isinstance(value, Mapping):
        return any(contains_search_domain(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(contains_search_domain(v) for v in value)


def _plain(value: Any) -> Any:
    """Numpy scalars (Optuna and Tune sample them), tuples and paths as plain Python values."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, and of one type: `True` is not 1."""
    return type(one) is type(other) and bool(one == other)


def is_numbers(value: Any, low: float = -_LARGE, high: float = _LARGE) -> bool:
    """Tell whether a tree of lists holds only None, booleans and numbers from low to high."""
    if isinstance(value, list):
        return all(is_numbers(item, low, high) for item in value)
    return value is None or (isinstance(value, (bool, int, float)) and low <= value <= high)


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
