"""Search domains as data: what one hyperparameter may be, and how it is drawn.

A domain is searched on its own scale; a transform turns the searched value into the setting's.
`{loguniform: [1e-4, 3e-2], transform: one_minus}` on `gamma` searches `one_minus_gamma` on a log
scale, and the trial's config holds `gamma`.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from search_spaces.documents import SpecError
from trainables.core.suggestions import suggestion

MAX_LISTED = 100_000
"""Values of a domain that are listed at most, e.g. for a grid search."""
_MOST_VALUES = 2**53  # each of them a double
_LARGEST_EXPONENT = 62  # of a power of two that is a setting


@dataclass(frozen=True)
class Transform:
    """From the searched value to the setting's value.

    Attributes:
        name: The name in YAML.
        label: Format of the searched parameter's name, with the setting's name for `{}`.
        forward: The map.
        backward: Its inverse, for points that are given as settings; `ValueError` if there is none.
        integers: Whether only whole numbers may be searched.
    """

    name: str
    label: str
    forward: Callable[[Any], Any]
    backward: Callable[[Any], Any]
    integers: bool = False


def _one_minus(x: float) -> float:
    return 1 - x


def _power_of_two(exponent: int) -> int:
    return int(2 ** int(exponent))


def _log2(value: float) -> int:
    exponent = round(math.log2(value))
    if 2**exponent != value:
        raise ValueError(f"{value!r} is no power of two")
    return exponent


# Named functions, not lambdas: searchers that hold domains are pickled by Tune.
TRANSFORMS: dict[str, Transform] = {
    "one_minus": Transform("one_minus", "one_minus_{}", _one_minus, _one_minus),
    "power_of_two": Transform("power_of_two", "log2_{}", _power_of_two, _log2, integers=True),
}


@dataclass(frozen=True)
class Domain(ABC):
    """What one hyperparameter may be. All bounds are on the searched scale."""

    kind: ClassVar[str]
    usage: ClassVar[str]
    transform: Transform | None

    @classmethod
    @abstractmethod
    def parse(cls, arguments: list[Any], transform: Transform | None) -> Domain:
        """Build from the YAML list; raises `SpecError` with what is wrong."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a searched value."""

    def arguments(self) -> list[Any]:
        """Return the YAML list that `parse` reads."""
        return [getattr(self, own.name) for own in fields(self) if own.name != "transform"]

    @abstractmethod
    def probes(self) -> list[Any]:
        """Return the values whose validity implies that of all: the bounds, or every choice."""

    @property
    def finite(self) -> list[Any] | None:
        """Every searched value if there are at most `MAX_LISTED`, else None."""
        return None

    def value(self, searched: Any) -> Any:
        """Return the setting's value for a searched value."""
        return self.transform.forward(searched) if self.transform else searched

    def to_dict(self) -> dict[str, Any]:
        """Return the YAML form."""
        entry: dict[str, Any] = {self.kind: self.arguments()}
        if self.transform:
            entry["transform"] = self.transform.name
        return entry


@dataclass(frozen=True)
class Uniform(Domain):
    """A number in `[low, high]`."""

    kind = "uniform"
    usage = "[low, high]"
    low: float
    high: float

    @classmethod
    def parse(cls, arguments: list[Any], transform: Transform | None) -> Domain:
        low, high = _bounds(cls, arguments)
        return cls(transform, low, high)

    def sample(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))

    def probes(self) -> list[Any]:
        return [self.low, self.high]


@dataclass(frozen=True)
class LogUniform(Uniform):
    """A positive number in `[low, high]` whose logarithm is uniform."""

    kind = "loguniform"

    def sample(self, rng: np.random.Generator) -> float:
        drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return min(max(drawn, self.low), self.high)


@dataclass(frozen=True)
class QUniform(Uniform):
    """One of `low, low + step, …, high`; whole numbers if all three are."""

    kind = "quniform"
    usage = "[low, high, step]"
    step: float

    @classmethod
    def parse(cls, arguments: list[Any], transform: Transform | None) -> Domain:
        if len(arguments) != 3:
            raise SpecError(f"expected quniform: {cls.usage}")
        low, high = _bounds(cls, arguments[:2])
        step = arguments[2]
        if not _is_number(step) or step <= 0:
            raise SpecError(f"the step of quniform must be a number > 0, not {step!r}")
        if not (high - low) / step < _MOST_VALUES:
            raise SpecError(f"quniform: {arguments} has more than {_MOST_VALUES:g} steps")
        if abs((high - low) / step - round((high - low) / step)) > 1e-9:
            raise SpecError(
                f"quniform: {arguments} does not end on a step; "
                f"the last value would be {low + step * math.floor((high - low) / step):g}"
            )
        return cls(transform, low, high, step)

    @property
    def whole(self) -> bool:
        """Whether every value is a whole number, written as such."""
        return all(isinstance(number, int) for number in (self.low, self.high, self.step))

    @property
    def count(self) -> int:
        """How many values there are."""
        return round((self.high - self.low) / self.step) + 1

    def sample(self, rng: np.random.Generator) -> float:
        return self.at(int(rng.integers(self.count)))

    def at(self, index: int) -> float:
        """Return the value at `index`, without the float noise of the multiplication."""
        value = self.low + self.step * index
        return value if self.whole else float(round(value, 12))

    @property
    def finite(self) -> list[Any] | None:
        if self.count > MAX_LISTED:
            return None
        return [self.at(index) for index in range(self.count)]


@dataclass(frozen=True)
class RandInt(Domain):
    """A whole number in `[low, high)`: like `tune.randint`, the upper bound is excluded."""

    kind = "randint"
    usage = "[low, high] (whole numbers, high excluded)"
    low: int
    high: int

    @classmethod
    def parse(cls, arguments: list[Any], transform: Transform | None) -> Domain:
        low, high = _bounds(cls, arguments, integers=True)
        return cls(transform, int(low), int(high))

    def sample(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.low, self.high))

    def probes(self) -> list[Any]:
        return [self.low, self.high - 1]

    @property
    def finite(self) -> list[Any] | None:
        return list(range(self.low, self.high)) if self.high - self.low <= MAX_LISTED else None


@dataclass(frozen=True)
class LogRandInt(RandInt):
    """A positive whole number in `[low, high)` whose logarithm is about uniform."""

    kind = "lograndint"

    def sample(self, rng: np.random.Generator) -> int:
        drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return min(int(drawn), self.high - 1)


@dataclass(frozen=True)
class Choice(Domain):
    """One of the listed values; they may be of any kind, also lists."""

    kind = "choice"
    usage = "[value, value, …]"
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, arguments: list[Any], transform: Transform | None) -> Domain:
        if not arguments:
            raise SpecError(f"expected {cls.kind}: {cls.usage} with at least one value")
        inner = next(filter(None, map(_domain_within, arguments)), None)
        if inner is not None:
            raise SpecError(
                f"{inner} is a domain, and {cls.kind} has values that are as they stand; search it "
                "as a setting of its own, with `when` where only some values of another use it"
            )
        if transform and any(not _is_number(value) for value in arguments):
            raise SpecError(f"transform {transform.name} needs numbers, not {arguments}")
        if transform and transform.integers and any(not _is_whole(v) for v in arguments):
            raise SpecError(f"transform {transform.name} needs whole numbers, not {arguments}")
        return cls(transform, tuple(arguments))

    def sample(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def arguments(self) -> list[Any]:
        return list(self.values)

    def probes(self) -> list[Any]:
        return list(self.values)

    @property
    def finite(self) -> list[Any]:
        return list(self.values)

    def labels(self) -> list[Any]:
        """Return the values as Optuna takes them: scalars as they are, others as JSON text."""
        scalar = (bool, int, float, str, type(None))
        return [v if isinstance(v, scalar) else json.dumps(v) for v in self.values]


@dataclass(frozen=True)
class Grid(Choice):
    """Every listed value is tried."""

    kind = "grid"


DOMAINS: dict[str, type[Domain]] = {
    domain.kind: domain
    for domain in (Uniform, LogUniform, QUniform, RandInt, LogRandInt, Choice, Grid)
}
# Ray Tune's and the reference's spelling of a grid.
_SYNONYMS = {"grid_search": "grid"}
KINDS = (*DOMAINS, *_SYNONYMS)
BESIDE = ("transform", "when")


def is_domain(entry: Any) -> bool:
    """Tell whether a YAML value is a domain, right or wrong inside."""
    return isinstance(entry, Mapping) and any(kind in entry for kind in KINDS)


def _domain_within(value: Any) -> Any:
    """Return the domain that a value is, or has inside a list or mapping; None if there is none."""
    if isinstance(value, Mapping):
        if any(kind in value and isinstance(value[kind], (list, tuple)) for kind in KINDS) and not (
            {*value} - {*KINDS, *BESIDE}
        ):
            return value
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return None
    return next(filter(None, map(_domain_within, value)), None)


def parse_domain(entry: Mapping[str, Any]) -> Domain:
    """Build the domain that a YAML mapping describes.

    Args:
        entry: e.g. `{"loguniform": [1e-5, 1e-3]}`, optionally with `transform`. Its key `when` is
            the space's to read: `search_spaces.conditions`.

    Raises:
        SpecError: What is wrong with it, without the setting's name.
    """
    kinds = [key for key in entry if key in KINDS]
    if len(kinds) != 1:
        raise SpecError(f"a domain is one of {', '.join(DOMAINS)}; found {list(entry)}")
    extra = [key for key in entry if key not in (*kinds, *BESIDE)]
    if extra:
        allowed = ", ".join(BESIDE) + suggestion(extra[0], BESIDE)
        raise SpecError(f"unknown key {extra[0]!r} beside {kinds[0]}; allowed: {allowed}")
    arguments = entry[kinds[0]]
    domain = DOMAINS[_SYNONYMS.get(kinds[0], kinds[0])]
    if not isinstance(arguments, (list, tuple)):
        raise SpecError(f"{kinds[0]} = {arguments!r} is not a list; expected {domain.usage}")
    transform = _transform(entry.get("transform"))
    if transform and transform.integers and not issubclass(domain, (RandInt, Choice)):
        raise SpecError(
            f"transform {transform.name} needs whole numbers: use randint, lograndint, "
            f"choice or grid instead of {domain.kind}"
        )
    parsed = domain.parse(list(arguments), transform)
    if transform and transform.integers:
        for exponent in parsed.probes():
            if abs(exponent) > _LARGEST_EXPONENT:
                raise SpecError(
                    f"transform {transform.name}: {exponent} is above {_LARGEST_EXPONENT}"
                )
    return parsed


def _transform(name: Any) -> Transform | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in TRANSFORMS:
        hint = suggestion(name, TRANSFORMS)
        raise SpecError(f"unknown transform {name!r}; allowed: {', '.join(TRANSFORMS)}{hint}")
    return TRANSFORMS[name]


def _bounds(
    domain: type[Domain], arguments: list[Any], *, integers: bool = False
) -> tuple[Any, Any]:
    kind = domain.kind
    if len(arguments) != 2:
        raise SpecError(f"{kind} = {arguments} is not allowed; expected {domain.usage}")
    for number in arguments:
        if not _is_number(number) or (integers and not _is_whole(number)):
            what = "a whole number" if integers else "a finite number"
            raise SpecError(f"{kind} = {arguments}: {number!r} is not {what}")
    low, high = arguments
    if integers and max(abs(low), abs(high)) > _MOST_VALUES:
        raise SpecError(f"{kind} = {arguments}: its bounds must lie within +-{_MOST_VALUES:g}")
    if kind.startswith("log") and low <= 0:
        raise SpecError(f"{kind} = {arguments}: a logarithmic range starts above 0")
    if low >= high:
        raise SpecError(f"{kind} = {arguments}: the lower bound must be below the upper one")
    return low, high


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer above all doubles
        return False


def _is_whole(value: Any) -> bool:
    return _is_number(value) and float(value).is_integer()
