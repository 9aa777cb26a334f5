"""Errors that the command line shows as one message, without a traceback."""

from __future__ import annotations

from search_spaces.documents import SpecError

__all__ = [
    "DoomedError",
    "ExperimentError",
    "MachineFailed",
    "PreflightError",
    "SpecError",
    "SpecWarning",
    "SweepError",
    "SweepStopped",
    "first_line",
]


def first_line(error: BaseException) -> str:
    """Return what an error says in its first line; its type if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class ExperimentError(Exception):
    """Something about a sweep that its user can mend.

    Attributes:
        exit_status: The exit status of the command that ends with it.
    """

    exit_status = 2


class PreflightError(ExperimentError):
    """The machine, the cluster or the storage cannot run the sweep as asked."""


class SweepError(ExperimentError):
    """A sweep could not be run or read, or none of its trials succeeded."""


class DoomedError(SweepError):
    """The first trials of a sweep all failed with the same cause before any had a result.

    Attributes:
        failures: Trial id and cause of each.
    """

    exit_status = 1

    def __init__(self, message: str, failures: list[tuple[str, str]]) -> None:
        super().__init__(message)
        self.failures = failures


class SweepStopped(SweepError):
    """A sweep broke off; what it had is kept, and a resume continues it."""

    exit_status = 3


class MachineFailed(SweepStopped):
    """What a sweep runs on failed under it: another sweep could not go on either.

    Args:
        cause: What failed.
        resume: What is kept of the sweep, and how it goes on.
    """

    def __init__(self, cause: str, resume: str) -> None:
        super().__init__(f"{cause}; {resume}")
        self.cause = cause


class SpecWarning(UserWarning):
    """Something in a spec is left out, and why."""
