"""What MLflow's page of a sweep says of it: a short text in Markdown, the run's description."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from analysis.names import ENV_STEPS, ITERATION, SECONDS
from analysis.numbers import cell, duration
from experiments.trial_info import PRUNED

if TYPE_CHECKING:
    import pandas as pd

    from analysis import Sweep, TrialRecord

_TOP = 5
_MAX_SETTINGS = 6
_MAX_VALUE = 24  # characters of a setting's value
_MAX_CAUSES = 3
_STATUS = {"TERMINATED": "finished", "ERROR": "failed", "RUNNING": "cut off", "PENDING": "cut off"}


def sweep_note(
    sweep: Sweep,
    metric: str,
    mode: str,
    *,
    links: Mapping[str, str] | None = None,
    commands: Iterable[str] = (),
) -> str:
    """Describe a sweep: its best value, the leaderboard's first lines, and failures.

    Args:
        sweep: what was read of its folder.
        metric: the objective.
        mode: "max" or "min".
        links: of artifacts, by what they are called.
        commands: command lines that repeat or use it.
    """
    from analysis.ranking.leaderboard import leaderboard
    from analysis.results.rows import ResultsError

    try:
        frame = leaderboard(sweep, metric, mode)
    except ResultsError:  # no trial has reported the metric
        parts = [_counts(sweep)]
    else:
        parts = [f"{_best(frame, metric, mode)} {_counts(sweep)} {_time(frame)}", _leaders(frame)]
    if links:  # early, as MLflow folds all but the first lines
        links_line = " · ".join(f"[{name}]({at})" for name, at in links.items())
        parts.insert(1, links_line)
    parts.append(_failures(sweep))
    if command_lines := list(commands):
        parts.append("\n".join(["```bash", *command_lines, "```"]))
    return "\n\n".join(part for part in parts if part)


def _best(frame: pd.DataFrame, metric: str, mode: str) -> str:
    best = frame.head(1).to_dict("records")[0]
    if cell(best["last"]) == cell(None):
        return f"No trial has a finite `{metric}`."
    how = "highest" if mode == "max" else "lowest"
    return f"**{cell(best['last'])}** is the {how} `{metric}`, of trial `{best['trial_id']}`."


def _counts(sweep: Sweep) -> str:
    counts = Counter(_end(trial) for trial in sweep.trials)
    total = len(sweep.trials)
    named = ", ".join(f"{count} {end}" for end, count in counts.most_common())
    return f"{total} trial{'' if total == 1 else 's'}: {named}." if total else "No trial began."


def _end(trial: TrialRecord) -> str:
    if trial.status == "TERMINATED" and PRUNED in trial.frame and trial.frame[PRUNED].iloc[-1]:
        return "stopped early"
    return _STATUS.get(trial.status, trial.status.lower())


def _time(frame: pd.DataFrame) -> str:
    return f"{duration(float(frame[SECONDS].astype(float).sum()))} of trials' time."


def _leaders(frame: pd.DataFrame) -> str:
    """Return a list, as MLflow sets the columns of tables without a gap."""
    settings = [name for name in frame.columns if name.startswith("config/")][:_MAX_SETTINGS]
    lines = []
    for row in frame.head(_TOP).to_dict("records"):
        values = ", ".join(
            f"{_plain(name.removeprefix('config/'))} {_plain(cell(row[name]))}" for name in settings
        )
        after = f"after {cell(row[ENV_STEPS])} env steps"
        if cell(row[ENV_STEPS]) == cell(None):
            after = f"after {cell(row[ITERATION])} iterations"
        lines.append(
            f"1. **{cell(row['last'])}** `{row['trial_id']}` {after}: {values}".rstrip(": ")
        )
    return "\n".join(lines)


def _failures(sweep: Sweep) -> str:
    from analysis.results.failures import failures

    causes = Counter(failure.cause for failure in failures(sweep) if not failure.recovered)
    lines = [
        f"- {count} failed: `{cause[:200].replace('`', chr(39))}`"
        for cause, count in causes.most_common(_MAX_CAUSES)
    ]
    if len(causes) > _MAX_CAUSES:
        lines.append(f"- and {len(causes) - _MAX_CAUSES} other causes")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, wherever it stands."""
    short = text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"
    return re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", short.replace("\n", " "))
