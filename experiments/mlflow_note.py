"""What MLflow's page of a sweep says of it: a short text in Markdown, the run's description."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from experiments.schema import ENV_STEPS
from experiments.summary import cell

if TYPE_CHECKING:
    import pandas as pd

    from analysis import Sweep

NOTE_TAG = "mlflow.note.content"  # what MLflow shows as a run's description
_TOP = 5
_MAX_SETTINGS = 6
_MAX_VALUE = 24  # characters of a setting's value
_MAX_CAUSES = 3
_SECONDS = "time_total_s"
_STATUS = {"TERMINATED": "finished", "ERROR": "failed", "RUNNING": "cut off", "PENDING": "cut off"}


def sweep_note(
    sweep: Sweep,
    metric: str,
    mode: str,
    *,
    links: Mapping[str, str] | None = None,
    commands: Iterable[str] = (),
) -> str:
    """Describes a sweep: its best value, the leaderboard's first lines, its cost and failures.

    Args:
        sweep: what was read of its folder.
        metric: the objective.
        mode: "max" or "min".
        links: of artifacts, by what they are called.
        commands: command lines that repeat or use it.
    """
    from analysis import leaderboard
    from analysis.rows import ResultsError

    try:
        frame = leaderboard(sweep, metric, mode)
    except ResultsError:  # no trial has reported the metric
        parts = [_counts(sweep)]
    else:
        parts = [f"{_best(frame, metric, mode)} {_counts(sweep)} {_cost(frame)}", _table(frame)]
    parts.append(_failures(sweep))
    if links:
        parts.append("Here: " + ", ".join(f"[{name}]({at})" for name, at in links.items()))
    if command_lines := list(commands):
        parts.append("\n".join(["```bash", *command_lines, "```"]))
    return "\n\n".join(part for part in parts if part)


def _best(frame: pd.DataFrame, metric: str, mode: str) -> str:
    best = frame.head(1).to_dict("records")[0]
    if cell(best["last"]) == cell(None):
        return f"No trial has a finite `{metric}`."
    how = "highest" if mode == "max" else "lowest"
    return (
        f"**{cell(best['last'])}** is the {how} `{metric}`: trial `{best['trial_id']}` after "
        f"{cell(best[ENV_STEPS])} env steps."
    )


def _counts(sweep: Sweep) -> str:
    counts = Counter(_STATUS.get(trial.status, trial.status.lower()) for trial in sweep.trials)
    total = len(sweep.trials)
    named = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{total} trial{'' if total == 1 else 's'}: {named}." if total else "No trial began."


def _cost(frame: pd.DataFrame) -> str:
    steps, seconds = int(frame[ENV_STEPS].sum()), float(frame[_SECONDS].astype(float).sum())
    return f"Cost: {steps:,} env steps, {_duration(seconds)} of trials' time."


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{minutes:.1f} min" if minutes >= 1 else f"{seconds:.0f} s"


def _table(frame: pd.DataFrame) -> str:
    settings = [name for name in frame.columns if name.startswith("config/")][:_MAX_SETTINGS]
    names = ["#", "trial", "last", "best", "env steps", *settings]
    lines = [
        "| " + " | ".join(_plain(name.removeprefix("config/")) for name in names) + " |",
        "|" + "---|" * len(names),
    ]
    for row in frame.head(_TOP).to_dict("records"):
        values = [row["rank"], row["trial_id"], row["last"], row["best"], row[ENV_STEPS]]
        values += [row[name] for name in settings]
        lines.append("| " + " | ".join(_plain(cell(value)) for value in values) + " |")
    return "\n".join(lines)


def _failures(sweep: Sweep) -> str:
    from analysis.failures import failures

    causes = Counter(failure.cause for failure in failures(sweep) if not failure.recovered)
    lines = [
        f"- {count} failed: `{cause[:200].replace('`', chr(39))}`"
        for cause, count in causes.most_common(_MAX_CAUSES)
    ]
    if len(causes) > _MAX_CAUSES:
        lines.append(f"- and {len(causes) - _MAX_CAUSES} other causes")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, in a cell of a table."""
    short = text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"
    return re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", short.replace("\n", " "))
