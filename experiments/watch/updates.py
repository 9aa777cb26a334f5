"""What the page is told of a sweep: everything at first, and from then on what has changed."""

from __future__ import annotations

import json
from typing import Any

from analysis.names import ENV_STEPS, ITERATION, TRAINED, metric_label, setting_label
from analysis.numbers import NONE, clock, number
from experiments.watch.watched_sweep import WatchedSweep
from experiments.watch.watched_trial import WatchedTrial
from experiments.watch.words import failures, headline, sentences

_LONGEST = 200  # characters of a cell
_ABSENT = object()

Message = dict[str, Any]


class Updates:
    """Turns a sweep into messages, of which each is one JSON object.

    `head` is what stands above the table: words, columns and figures. `trials` has the rows that
    changed, by trial id, `order` all ids from best to worst. `curves` has points to append, by
    trial id: columns `steps`, `seconds` and `values` (one for each objective), which replace what
    the curve had from its point `from` on.

    Args:
        sweep: The sweep.
    """

    def __init__(self, sweep: WatchedSweep) -> None:
        self._sweep = sweep
        self._head: Message = {}
        self._order: list[str] = []
        self._rows: dict[str, Message] = {}
        self._sent: dict[str, tuple[int, int]] = {}  # version of a curve, and points of it

    def whole(self) -> Message:
        """Return all that is known, for a page that knows nothing."""
        curves = {trial.trial_id: _curve(trial, 0) for trial in self._sweep.trials}
        return {"head": self._head, "order": self._order, "trials": self._rows, "curves": curves}

    def changes(self) -> Message:
        """Return what has changed since the last call; empty if nothing has."""
        sweep, message = self._sweep, Message()
        ranked = sweep.best_first()
        settings = _settings(sweep.trials)
        rows = {trial.trial_id: self._row(trial, settings) for trial in ranked}
        changed = {key: row for key, row in rows.items() if self._rows.get(key) != row}
        if changed:
            message["trials"] = changed
        curves = {
            trial.trial_id: _curve(trial, self._start(trial))
            for trial in sweep.trials
            if self._sent.get(trial.trial_id) != _mark(trial)
        }
        if curves:
            message["curves"] = curves
        for key, now in (("order", list(rows)), ("head", self._make_head(ranked, settings))):
            if getattr(self, f"_{key}") != now:
                setattr(self, f"_{key}", now)
                message[key] = now
        self._rows = rows
        self._sent = {trial.trial_id: _mark(trial) for trial in sweep.trials}
        return message

    def _start(self, trial: WatchedTrial) -> int:
        """Return from which point on the page does not know a curve."""
        version, count = self._sent.get(trial.trial_id, (-1, 0))
        return count if version == trial.log.version else 0

    def _make_head(self, ranked: list[WatchedTrial], settings: list[str]) -> Message:
        sweep = self._sweep
        metrics = [metric for metric, _ in sweep.objectives]
        columns = ["Trial", "Status", *metrics, *map(setting_label, settings)]
        columns += [metric_label(_steps_of(sweep.trials)).capitalize(), "Iteration", "Time"]
        are_numbers = [_are_numbers(sweep.trials, key) for key in settings]
        return {
            "name": sweep.folder.name,
            "phase": sweep.phase,
            "headline": headline(sweep),
            "words": sentences(sweep, ranked),
            "failures": failures(sweep),
            "columns": columns,
            "numeric": [False, False, *([True] * len(metrics)), *are_numbers, True, True, True],
            "figures": [
                {"metric": metric, "label": metric_label(metric), "better": mode}
                for metric, mode in sweep.objectives
            ],
            "steps": metric_label(_steps_of(sweep.trials)),
            "report": sweep.report is not None,
        }

    def _row(self, trial: WatchedTrial, settings: list[str]) -> Message:
        config, last = trial.settings, trial.log.last
        seconds = trial.log.points[-1].seconds if trial.log.points else None
        cells = [number(last.get(metric)) for metric, _ in self._sweep.objectives]
        cells += [_cell(config[key]) if key in config else "" for key in settings]
        cells += [number(last.get(key)) for key in (_steps_of(self._sweep.trials), ITERATION)]
        cells.append(NONE if seconds is None else clock(seconds))
        return {"status": trial.status, "cause": trial.cause, "cells": cells}


def _curve(trial: WatchedTrial, start: int) -> Message:
    points = trial.log.points[start:]
    count = len(points[0].values) if points else 0
    return {
        "from": start,
        "steps": [point.steps for point in points],
        "seconds": [_short(point.seconds) for point in points],
        "values": [[_short(point.values[place]) for point in points] for place in range(count)],
    }


def _short(value: float | None) -> float | None:
    """Return a number in six digits: a picture shows no more, and all of them are sent."""
    return None if value is None else float(f"{value:.6g}")


def _mark(trial: WatchedTrial) -> tuple[int, int]:
    return trial.log.version, len(trial.log.points)


def _steps_of(trials: list[WatchedTrial]) -> str:
    """Return what counts the steps of the curves."""
    reported = [name for name in (ENV_STEPS, TRAINED) if any(name in t.log.last for t in trials)]
    return reported[0] if reported else ITERATION


def _settings(trials: list[WatchedTrial]) -> list[str]:
    """Return the settings that the search set, or that differ between trials."""
    known = [trial.settings for trial in trials if trial.settings]
    searched = {name for trial in trials for name in trial.searched}
    keys = dict.fromkeys(key for settings in known for key in settings)
    # A setting that only some trials have differs, too.
    values = {key: {repr(settings.get(key, _ABSENT)) for settings in known} for key in keys}
    return [key for key in keys if key in searched or len(values[key]) > 1]


def _are_numbers(trials: list[WatchedTrial], key: str) -> bool:
    values = [trial.settings[key] for trial in trials if key in trial.settings]
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _cell(value: Any) -> str:
    """Return a setting's value: a number in four digits, text as it is, others as JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        value = json.dumps(value, default=str)
    try:
        text = value if isinstance(value, str) else number(value)
    except OverflowError:  # a whole number beyond all floats
        text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
