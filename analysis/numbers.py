"""How numbers and durations are written: on a report's page, in the terminal and in notes.

A page has `number` and `duration`; a table of plain text `cell`, which keeps the digits of what may
be copied; a line that is written anew all the time `large` and `clock`, which keep their width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NONE = "–"


def number(value: Any) -> str:
    """Write four digits, thousands separated: `371.6`, `0.001405`, `49,152`; a dash for none."""
    if not is_number(value):
        return NONE if value is None or value != value else str(value)
    value = float(value)
    if not math.isfinite(value):
        return NONE
    if abs(value) >= 1e7:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    if value == int(value) or abs(value) >= 1e4:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−") if abs(value) >= 1e-4 else f"{value:.3g}"


def steps(value: Any) -> str:
    """Return a count of steps in words: `49,152`, `2.1 million`."""
    if not is_number(value) or not math.isfinite(value):
        return NONE
    return f"{value / 1e6:.3g} million" if value >= 1e6 else f"{value:,.0f}"


def duration(seconds: Any) -> str:
    """Return seconds in words: `8.2 s`, `4 min 10 s`, `3 h 20 min`, `2 d 4 h`."""
    if not is_number(seconds) or not math.isfinite(seconds):
        return NONE
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    rest = round(seconds)
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if rest >= size:
            whole, part = rest // size, rest % size // smaller
            return f"{whole} {unit} {part} {name}" if part else f"{whole} {unit}"
    return f"{rest // 60} min {rest % 60} s" if rest % 60 else f"{rest // 60} min"


def share(part: float) -> str:
    """Return a share as a percentage: `37 %`."""
    return f"{100 * part:.0f} %" if part >= 0.01 or part == 0 else f"{100 * part:.1g} %"


def count(amount: int, thing: str) -> str:
    """Return `1 trial`, `24 trials`, `2 queries`, `2 processes`."""
    plural = thing[:-1] + "ies" if thing.endswith("y") else f"{thing}s"
    if thing.endswith("s"):
        plural = f"{thing}es"
    return f"{amount:,} {thing if amount == 1 else plural}"


def listed(parts: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def is_number(value: Any) -> bool:
    """Tell whether it is a number, numpy's too; booleans are not."""
    return hasattr(value, "__float__") and not isinstance(value, bool | str)


def finite_or_none(value: Any) -> float | None:
    """Return a number as JSON has it: None for NaN, an infinity and what is no number."""
    return float(value) if is_number(value) and math.isfinite(value) else None


def cell(value: Any, *, signed: bool = False) -> str:
    """Write a value for a table: four digits, thousands apart, a dash for none.

    Args:
        value: Any value; what is no number is written as it is.
        signed: Whether a positive number has its sign, too.
    """
    sign = "+" if signed else ""
    if value is None or str(value) in ("nan", "<NA>"):
        return NONE
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:{sign}.4g}" if abs(value) < 1e4 else f"{value:{sign},.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:{sign},}"
    return str(value)


def short(value: Any, digits: int = 4) -> str:
    """Write a value for a narrow table: so many significant digits, nothing for None.

    Whole digits are kept up to ten million: 12346 rather than 1.235e+04.
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if 10.0**digits <= abs(value) < 1e7 else f"{value:.{digits}g}"
    if isinstance(value, Mapping) or callable(value):
        return getattr(value, "__name__", "...")
    text = str(value)
    return text if len(text) <= 16 else f"{text[:9]}…{text[-6:]}"  # an end may be all that differs


def whole(value: Any) -> str:
    """Write a whole number with separators, nothing for None."""
    return "" if value is None else f"{int(value):,}"


def large(value: float) -> str:
    """Write a large number in short: 950, 12.5k, 3.2M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.4g}"


def clock(seconds: float) -> str:
    """Write a duration as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
