"""The known names that an unknown one is most like, for an error to end with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType


def nearest_names(
    name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6, within: float = 1.0
) -> list[str]:
    """Find the known names that are most like a name, the likeliest first.

    Args:
        name: The unknown name.
        known: The names to choose from.
        most: The largest number of names to find.
        cutoff: The least likeness to the name, from 0 (not at all) to 1 (the same).
        within: The largest distance in likeness to the likeliest name: one that is much more like
            it than the others was meant.
    """
    near = difflib.get_close_matches(str(name), list(known), n=most, cutoff=cutoff)
    likeness = [difflib.SequenceMatcher(None, found, str(name)).ratio() for found in near]
    return [n for n, like in zip(near, likeness, strict=True) if like > likeness[0] - within]


def nearest_name(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Find the known name that is most like a name; None if none is like it."""
    return next(iter(nearest_names(name, known, cutoff=cutoff)), None)


def did_you_mean(names: Iterable[str], places: Mapping[str, str] = MappingProxyType({})) -> str:
    """Write `; did you mean 'x' or 'y'?` for an error to end with; nothing without names.

    Args:
        names: The names to suggest.
        places: Places where to write some of the names, put behind them in brackets.
    """
    written = [f"{name!r} ({places[name]})" if name in places else repr(name) for name in names]
    return f"; did you mean {' or '.join(written)}?" if written else ""


def suggestion(name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> str:
    """Write `did_you_mean` of the `nearest_names`."""
    return did_you_mean(nearest_names(name, known, most=most, cutoff=cutoff))
