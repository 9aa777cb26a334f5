"""Why trials failed: the causes that their folders tell."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis.results.records import Sweep, TrialRecord

_UNKNOWN = "unknown error"
_ERROR_FILE = "error.txt"
# The head of an exception's line in a traceback: `package.module.SomeError: ...`.
_EXCEPTION_LINE = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b")

_OUR_ERROR = re.compile(r"^(?:trainables|experiments|search_spaces|analysis)\.[\w.]+: ")


@dataclass(frozen=True)
class Failure:
    """One trial that failed.

    Attributes:
        trial_id: Tune's id.
        cause: The line of its last traceback that names the exception.
        text: The whole of its `error.txt`; empty if there is none.
        recovered: Whether it went on from a checkpoint, and did not end as failed.
    """

    trial_id: str
    cause: str
    text: str
    recovered: bool = False


def failures(sweep: Sweep) -> list[Failure]:
    """Return the trials that failed or went on after a failure, in the sweep's order."""
    found = []
    for trial in sweep.trials:
        text = _error_text(trial)
        failed = trial.status == "ERROR"
        if failed or text:
            found.append(Failure(trial.trial_id, shown_cause(text), text, recovered=not failed))
    return found


def shown_cause(text: str) -> str:
    """Return `cause_of` for people: our own errors, which say what is wrong, without class."""
    return _OUR_ERROR.sub("", cause_of(text))


def cause_of(text: str) -> str:
    """Return the line that names the last traceback's exception; the last line if none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION_LINE.match(line)]
    return (named or lines or [_UNKNOWN])[-1]


def _error_text(trial: TrialRecord) -> str:
    try:
        return (trial.path / _ERROR_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
