"""The error of everything that reads results. Apart, so that nothing heavy is imported for it."""

from __future__ import annotations


class ResultsError(ValueError):
    """The results of a sweep cannot be read, or do not hold what was asked for."""
