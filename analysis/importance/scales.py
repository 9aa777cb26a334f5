"""On which scale a setting is drawn: as it was searched, or as its values suggest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.importance.effects import level_label

Kind = Literal["linear", "log", "one_minus", "category"]

_LOG_DOMAINS = ("loguniform", "lograndint")
_LISTED = ("choice", "grid", "grid_search")
_FEW = 6
"""So many different numbers, each several times, are levels rather than a range."""
_WIDE = 30.0
"""Positive numbers that span such a ratio are drawn on a log scale if nobody says how."""


_NEAR = 0.2
"""Where, between least and greatest, the median of such numbers lies at most."""


@dataclass(frozen=True)
class Scale:
    """The axis of one setting.

    Positions are what is drawn: the value itself (`linear`), log10 of it (`log`), minus log10 of
    one less it (`one_minus`: 0.9, 0.99 and 0.999 of a discount are equally far apart), or the
    number of its level (`category`). They grow with the value.

    Attributes:
        kind: See above.
        levels: The levels of a category, as labels, in their order.
        marks: Values that the ticks shall be at, where the values are few; else empty.
    """

    kind: Kind
    levels: tuple[str, ...] = ()
    marks: tuple[float, ...] = ()

    def positions(self, values: Iterable[Any]) -> np.ndarray:
        """Return where values lie, `[n]`; NaN for what is missing or not on the scale."""
        if self.kind == "category":
            place = {level: float(number) for number, level in enumerate(self.levels)}
            return np.array([place.get(label(value), np.nan) for value in values])
        raw = [np.nan if isinstance(v, bool) else v for v in values]
        numbers = pd.to_numeric(pd.Series(raw, dtype=object), errors="coerce").to_numpy(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "log":
                numbers = np.log10(numbers)
            elif self.kind == "one_minus":
                numbers = -np.log10(1 - numbers)
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def drawn(self, positions: np.ndarray) -> np.ndarray:
        """Return what plotly takes for positions: of a logarithmic axis the values themselves."""
        return np.power(10.0, positions) if self.kind == "log" else positions

    def ticks(self, low: float, high: float, count: int = 5) -> tuple[list[float], list[str]]:
        """Return positions and labels of about `count` round values between two positions."""
        if self.kind == "category":
            return [float(n) for n in range(len(self.levels))], list(self.levels)
        values: Sequence[float] = self.marks
        if not values:
            values = _round_values(self.kind, low, high, count)
        places = self.positions(values)
        slack = 1e-9 * max(high - low, 1e-9)
        inside = (places >= low - slack) & (places <= high + slack)
        shown = [(float(p), number(v)) for p, v, i in zip(places, values, inside, strict=True) if i]
        step = math.ceil(len(shown) / max(count, 1)) if len(shown) > 2 * count else 1
        return [p for p, _ in shown[::step]], [text for _, text in shown[::step]]


def scales_of(
    values: pd.DataFrame, settings: Iterable[str], search_space: Mapping[str, Any] | None = None
) -> dict[str, Scale]:
    """Return the scale of each setting.

    Args:
        values: A column per setting, named as in `settings`, a row per trial.
        settings: Nested names joined by `/`.
        search_space: That of the spec, as plain data: `{"lr": {"loguniform": [1e-5, 1e-2]}}`.
            A setting that is not in it has its scale guessed from its values.
    """
    domains = dict(_domains(search_space or {}))
    return {name: _scale(values[name], domains.get(name)) for name in settings if name in values}


def label(value: Any) -> str:
    """Return a setting's value as a reader writes it: `tanh`, `[64, 64]`, `0.0003`, `none`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "none"
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return number(float(value))
    return level_label(value.item() if isinstance(value, np.generic) else value)


def number(value: float, digits: int = 4) -> str:
    """Return a number in few characters: `0.0003`, `1e-6`, `512`, `50k`, `1.5M`.

    Args:
        value: Finite or not.
        digits: Significant ones at most. Whole numbers below 10,000 keep all theirs.
    """
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if 1e4 <= size < 1e15:
        for unit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if size >= unit * (1 - 0.5 * 10.0**-digits):
                return f"{value / unit:.{digits}g}{suffix}"
    if (size and size < 1e-4) or size >= 1e15:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    if size >= 1000:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def _domains(space: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the entries of a space by the names that frames use, however they are nested."""
    for key, entry in space.items():
        name = f"{prefix}{key}".replace(".", "/")
        if not isinstance(entry, Mapping):
            continue
        if any(isinstance(value, Mapping) for key, value in entry.items() if key != "when"):
            yield from _domains(entry, f"{name}/")
        elif entry:
            yield name, dict(entry)


def _scale(values: pd.Series, domain: Mapping[str, Any] | None) -> Scale:
    if domain is None:
        return _guessed(values)
    transform = domain.get("transform")
    if any(kind in domain for kind in _LISTED):
        listed = next(domain[kind] for kind in _LISTED if kind in domain)
        # A resumed or extended sweep may hold levels that the spec no longer lists.
        return _category([*_transformed(listed, transform), *values])
    if not _numeric(values):
        return _category(values)
    if transform == "power_of_two":
        return Scale("log", marks=_marks(values))
    if any(kind in domain for kind in _LOG_DOMAINS):
        return Scale("one_minus" if transform == "one_minus" else "log")
    whole = any(kind in domain for kind in ("randint", "quniform"))
    return Scale("linear", marks=_marks(values) if whole else ())


def _guessed(values: pd.Series) -> Scale:
    if not _numeric(values):
        return _category(values)
    numbers = pd.to_numeric(values, errors="coerce").dropna().to_numpy(float)
    numbers = numbers[np.isfinite(numbers)]
    different = np.unique(numbers)
    if len(different) <= min(_FEW, len(numbers) / 2):
        return _category(values)
    low, high = float(different[0]), float(different[-1])
    # Also of even draws from (0, 1) the ratio is wide: on a log scale half lie near the low end.
    middle = (float(np.median(numbers)) - low) / ((high - low) or 1.0)
    if low > 0 and high / low >= _WIDE and middle < _NEAR:
        return Scale("log")
    if low > 0 and 0.9 < high < 1 and (1 - low) / (1 - high) >= _WIDE and middle > 1 - _NEAR:
        return Scale("one_minus")
    return Scale("linear")


def _numeric(values: pd.Series) -> bool:
    known = [v for v in values if not (v is None or (isinstance(v, float) and math.isnan(v)))]
    return bool(known) and all(_is_number(v) for v in known)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _transformed(listed: Any, transform: str | None) -> list[Any]:
    values = list(listed) if isinstance(listed, list | tuple) else [listed]
    if transform == "one_minus":
        return [1 - value for value in values]
    return [2**value for value in values] if transform == "power_of_two" else values


def _category(values: Iterable[Any]) -> Scale:
    """Return levels in the order of numbers if all are some, else as they come."""
    known = {label(value): value for value in values}
    missing = [known.pop("none")] if "none" in known else []
    if all(_is_number(value) for value in known.values()):
        known = dict(sorted(known.items(), key=lambda item: float(item[1])))
    elif set(known) <= {"true", "false"}:
        known = dict(sorted(known.items()))
    return Scale("category", (*known, *(["none"] if missing else [])))


def _marks(values: pd.Series) -> tuple[float, ...]:
    different = np.unique(pd.to_numeric(values, errors="coerce").dropna().to_numpy(float))
    return tuple(float(v) for v in different) if len(different) <= 8 else ()


def _round_values(kind: Kind, low: float, high: float, count: int) -> list[float]:
    """Return round numbers of the setting between two positions; always two or more."""
    if kind == "linear":
        return _linear_values(low, high, count)
    if kind == "log":
        return _log_values(low, high, count)
    # Steps of 1 - value, which grows the other way.
    return [float(f"{1 - v:.12g}") for v in reversed(_log_values(-high, -low, count))]


def _linear_values(low: float, high: float, count: int) -> list[float]:
    if high <= low:
        return [low]
    rough = (high - low) / max(count, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(s * unit for s in (1, 2, 2.5, 5, 10) if s * unit >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{n * step:.12g}") for n in range(first, last + 1)]


def _log_values(low: float, high: float, count: int) -> list[float]:
    """Return powers of ten if there are enough, else with 1-3, 1-2-5 or linear steps between."""
    decades = range(math.floor(low) - 1, math.ceil(high) + 2)
    for digits in ((1,), (1, 3), (1, 2, 5)):
        values = [d * 10.0**e for e in decades for d in digits]
        inside = [v for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
        if len(inside) >= max(3, count - 2):
            step = math.ceil(len(inside) / (count + 1))
            return [float(f"{v:.12g}") for v in inside[::step]]
    return _linear_values(10.0**low, 10.0**high, count)
