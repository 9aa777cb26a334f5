"""Errors that the command line shows as one message, without a traceback."""

from __future__ import annotations

from search_spaces.documents import SpecError

__all__ = ["ExperimentError", "PreflightError", "SpecError", "SpecWarning", "SweepError"]


class ExperimentError(Exception):
    """Something about a sweep that its user can mend."""


class PreflightError(ExperimentError):
    """The machine, the cluster or the storage cannot run the sweep as asked."""


class SweepError(ExperimentError):
    """A sweep could not be run or read, or none of its trials succeeded."""


class SpecWarning(UserWarning):
    """Something in a spec is left out, and why."""
