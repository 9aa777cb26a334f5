"""What a Tune trial says about itself: how it ended, why it failed, which numbers it reported."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.names import HOST
from analysis.results.failures import shown_cause
from analysis.results.rows import flatten
from experiments.spec.metrics import TWICE

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

#: Key of a trial's last result: True if a scheduler ended the trial before its stop criterion.
PRUNED = "pruned"

# What Tune adds to every result about the process and the clock, not about the training; and what a
# host adds.
_BOOKKEEPING = frozenset(
    {
        "date",
        "done",
        "experiment_tag",
        HOST,
        "hostname",
        "iterations_since_restore",
        "node_ip",
        "pid",
        "should_checkpoint",
        "time_since_restore",
        "timestamp",
        "trial_id",
        PRUNED,
    }
)


def numeric_metrics(result: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Return the metrics of a Tune result and the keys whose values are not finite.

    Booleans, book-keeping (process ids, hosts, node addresses, time stamps), the config, and older
    names of metrics that are there under their newer ones are left out.

    Args:
        result: What Tune hands to callbacks, flat or nested.

    Returns:
        The finite numeric values by flat key, and the keys of NaN and infinite values.
    """
    finite: dict[str, float] = {}
    non_finite: list[str] = []
    flat = flatten({k: v for k, v in result.items() if k != "config"})
    for key, value in flat.items():
        if isinstance(value, bool) or not isinstance(value, Number) or key in _BOOKKEEPING:
            continue
        if TWICE.get(key) in flat:
            continue
        number = float(value)  # type: ignore[arg-type]
        if math.isfinite(number):
            finite[key] = number
        else:
            non_finite.append(key)
    return finite, non_finite


def was_pruned(trial: Trial) -> bool:
    """Tell whether a terminated trial was ended early by a scheduler.

    `experiments.durability.keeper.durable` sees the scheduler's decision and writes it into the
    last result (key `pruned`). Without it the rule is: the trial has stop criteria and met none of
    them. That rule takes a trainable that ends itself (`done=True`) for a pruned one.
    """
    result = trial.last_result or {}
    if PRUNED in result:
        return bool(result[PRUNED])
    return bool(_criteria(trial)) and not _met_criterion(trial)


def was_interrupted(trial: Trial) -> bool:
    """Tell whether a terminated trial was cut off with its sweep, by Ctrl-C or a time budget.

    Tune then calls it terminated, but its last result is like any other: no end.
    """
    result = trial.last_result or {}
    return not (PRUNED in result or result.get("done") or _met_criterion(trial))


def _criteria(trial: Trial) -> dict[str, float]:
    return {k: v for k, v in (trial.stopping_criterion or {}).items() if k != "done"}


def _met_criterion(trial: Trial) -> bool:
    flat = flatten(trial.last_result or {})
    return any(key in flat and flat[key] >= limit for key, limit in _criteria(trial).items())


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file with one per line, e.g. a trial's `result.json`.

    A line that a kill cut short is left out; a missing file has none.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def error_cause(trial: Trial) -> str:
    """Return the line of a failed trial's last traceback that names the exception."""
    try:
        text = Path(trial.error_file or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return shown_cause("")
    return shown_cause(text)


def trial_folder(trial: Trial) -> Path:
    """Return the trial's folder in the sweep's folder (for remote storage: its path there)."""
    assert trial.storage is not None, "Tune gives every trial of a sweep its storage"
    return Path(trial.storage.trial_fs_path)


def folder_name(trial: Trial) -> str | None:
    """Return the name of a trial's folder in the sweep's; None before its first start."""
    name: Any = trial.relative_logdir  # Ray declares it as always None
    return name


def error_path(trial: Trial) -> str:
    """Return where a failed trial's traceback is kept: `error.txt` in the trial's folder."""
    return str(trial_folder(trial) / (trial.run_metadata.error_filename or "error.txt"))
