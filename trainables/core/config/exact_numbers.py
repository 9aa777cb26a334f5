"""Numbers as people write them."""

from __future__ import annotations

from fractions import Fraction


def exact(number: float) -> Fraction:
    """Return a number as people write it: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(str(number))
