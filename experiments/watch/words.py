"""A sweep that is watched, in words: how it stands, what is best, how long it has taken."""

from __future__ import annotations

import math
import time
from collections import Counter

from analysis.names import metric_label
from analysis.numbers import count, duration, listed, number
from experiments.spec.paths import command_line
from experiments.watch.watched_sweep import WatchedSweep
from experiments.watch.watched_trial import ENDED, WatchedTrial

_HEADLINES = {
    "gone": "Folder gone",
    "waiting": "No trial yet",
    "running": "Running",
    "closing": "Writing results",
    "ended": "Ended",
    "stopped": "Stopped",
    "silent": "Silent",
}
_OUTCOMES = {"finished": "finished", "pruned": "stopped early", "failed": "failed"}
_OTHERS = {"running": "running", "paused": "paused", "interrupted": "interrupted"}
_MOST_FAILURES = 5


def headline(sweep: WatchedSweep) -> str:
    """Return how the sweep stands, in a word or two."""
    return _HEADLINES[sweep.phase]


def sentences(sweep: WatchedSweep, ranked: list[WatchedTrial]) -> list[str]:
    """Return the sweep in a few sentences.

    Args:
        sweep: The sweep.
        ranked: Its trials, the best first.
    """
    found = [_state(sweep), _counts(sweep), _best(sweep, ranked), _time(sweep)]
    return [sentence for sentence in found if sentence]


def failures(sweep: WatchedSweep) -> list[str]:
    """Return the causes of failures, each with the trials that it ended; the most common first."""
    trials: dict[str, list[str]] = {}
    for trial in sweep.trials:
        if trial.status == "failed":
            trials.setdefault(trial.cause, []).append(trial.trial_id)
    common = sorted(trials.items(), key=lambda item: -len(item[1]))
    lines = [f"{_named(failed)} failed: {cause}" for cause, failed in common[:_MOST_FAILURES]]
    more = len(common) - len(lines)
    return [*lines, f"{count(more, 'more cause')}."] if more else lines


def _named(trials: list[str]) -> str:
    if len(trials) > 3:
        return f"{trials[0]} and {len(trials) - 1} other trials"
    return listed(trials)


def _state(sweep: WatchedSweep) -> str:
    resume = command_line("resume", sweep.folder)
    doing = "runs its final, or writes" if sweep.has_final else "writes"
    return {
        "gone": "The folder is no longer there.",
        "waiting": "The sweep has not begun: no trial has started.",
        "closing": f"All trials have ended. The sweep {doing} its results.",
        "ended": "The sweep has ended.",
        "stopped": f"The sweep stopped before all trials ended. `{resume}` continues it.",
        "silent": (
            "No trial has reported for two minutes. The sweep was stopped, or an iteration takes "
            f"long. If it was stopped, `{resume}` continues it."
        ),
    }.get(sweep.phase, "")


def _counts(sweep: WatchedSweep) -> str:
    number_of = Counter(trial.status for trial in sweep.trials)
    done = sum(number_of[status] for status in ENDED)
    total = max(sweep.total or 0, len(sweep.trials))
    if not total:
        return ""
    of = f"{done} of {count(total, 'trial')}" if sweep.total else count(done, "trial")
    how = [f"{number_of[key]} {word}" for key, word in _OUTCOMES.items() if number_of[key]]
    ended = f" ({', '.join(how)})" if how and (len(how) > 1 or "finished" not in how[0]) else ""
    rest = [f"{number_of[key]} {word}" for key, word in _OTHERS.items() if number_of[key]]
    waiting = total - done - sum(number_of[key] for key in _OTHERS)
    rest += [f"{waiting} not started"] if waiting else []
    return f"{of} done{ended}{'; ' if rest else ''}{', '.join(rest)}."


def _best(sweep: WatchedSweep, ranked: list[WatchedTrial]) -> str:
    if not ranked or not math.isfinite(ranked[0].log.course.last):
        return ""
    metric, mode = sweep.objectives[0]
    best, so_far = ranked[0], " so far" if sweep.phase == "running" else ""
    better = "higher" if mode == "max" else "lower"
    value = number(best.log.course.last)
    return (
        f"Best{so_far}: {best.trial_id} with {value} ({metric_label(metric)}, {better} is better)."
    )


def _time(sweep: WatchedSweep) -> str:
    began = [trial.log.began for trial in sweep.trials if trial.log.began is not None]
    if not began:
        return ""
    spent = (sweep.last_sign if sweep.is_over else time.time()) - min(began)
    said = "It took" if sweep.is_over else "Time since the first trial began:"
    return f"{said} {duration(max(spent, 0.0))}."
