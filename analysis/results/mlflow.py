"""A sweep read back from MLflow: its parent run, and a child run per trial.

What MLflow holds is what `experiments.tracking.runs` writes there: finite numbers by environment
step and time, settings as text. So a frame from MLflow lacks texts, flags (`done`) and values
that are not finite; counts are floats; a setting that was the text `"1"` comes back as a number;
all results of a trial have the `host` that trained it last. All else equals the folder's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.credentials import scrubbed
from analysis.names import HOST, ITERATION
from analysis.results.mlflow_history import Point, histories
from analysis.results.mlflow_reading import open_store, pages, search_runs, value_of
from analysis.results.mlflow_tags import (
    CHANGED_TAGS,
    FOLDER_TAG,
    HOST_TAG,
    KIND_TAG,
    NAME_TAG,
    STATUS_TAG,
    SWEEP_KIND,
    SWEEP_TAG,
    TRIAL_TAG,
)
from analysis.results.records import MLFLOW, Sweep, TrialRecord
from analysis.results.rows import Config, ResultsError, Row, nest, one_timeline
from trainables.core.suggestions import nearest_names

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

DEFAULT_DATABASE = Path("runs", "mlflow.db")
_STATUS = {"FINISHED": "TERMINATED", "FAILED": "ERROR", "SCHEDULED": "PENDING"}


def load_mlflow_sweep(sweep: str, *, tracking_uri: str | None = None) -> Sweep:
    """Read a sweep from an MLflow tracking store; nothing of its folder is needed.

    Args:
        sweep: `<experiment>/<sweep>`, `<sweep>` or the run id of the sweep's own run. Of sweeps
            of the same name the newest is taken.
        tracking_uri: The URI of the store; by default `MLFLOW_TRACKING_URI`, else `runs/mlflow.db`.

    Returns:
        The sweep as of its folder, as far as MLflow knows it: see this module. Its checkpoints are
        found if its folder still lies where it ran. Where a trial went on from a checkpoint after a
        kill, MLflow keeps the values that were reported first.

    Raises:
        ResultsError: There is no such store, it does not answer or cannot be read, or there is no
            such sweep in it.

    Example:
        >>> load_mlflow_sweep("tunescape/quickstart")  # doctest: +SKIP
        >>> trials_frame("mlflow:tunescape/quickstart")  # doctest: +SKIP
    """
    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or _default_uri()
    with open_store(uri) as client:
        parent, experiment = _find(client, sweep, uri)
        runs = _trials(client, parent)
        metrics = {run.info.run_id: sorted(run.data.metrics) for run in runs}
        searched = tuple(
            key.partition("/")[2].replace(".", "/")
            for key in parent.data.params
            if key.startswith("search_space/")
        )
        by_run = {run.info.run_id: run for run in runs}
        trials = [
            _trial(by_run[run_id], points, searched)
            for run_id, points in histories(client, metrics)
        ]
    name = parent.data.tags.get(NAME_TAG) or parent.info.run_name
    return Sweep(name, Path(f"{MLFLOW}{experiment}/{name}"), trials)


def _default_uri() -> str:
    return f"sqlite:///{DEFAULT_DATABASE.absolute()}"


def _find(client: MlflowClient, sweep: str, uri: str) -> tuple[Run, str]:
    """Return the sweep's own run, and the name of its experiment."""
    experiments = {e.experiment_id: e.name for e in pages(client.search_experiments)}
    parents = search_runs(client, experiments, f"tags.`{KIND_TAG}` = '{SWEEP_KIND}'")
    known: dict[str, tuple[Run, str]] = {}
    for run in sorted(parents, key=lambda run: int(run.info.start_time or 0)):
        experiment = experiments[run.info.experiment_id]
        name = run.data.tags.get(NAME_TAG) or run.info.run_name
        for key in (f"{experiment}/{name}", name, run.info.run_id):
            known[key] = run, experiment
    if sweep in known:
        return known[sweep]
    names = [key for key, (run, _) in known.items() if key != run.info.run_id and "/" in key]
    near = nearest_names(sweep, names, most=3, cutoff=0.3) or names[-3:]
    hint = f"; there are e.g. {', '.join(near)}" if near else "; it holds no sweep"
    raise ResultsError(f"{scrubbed(uri)}: there is no sweep {sweep!r}{hint}")


def _trials(client: MlflowClient, parent: Run) -> list[Run]:
    """Return the runs of the sweep's trials, in the order of their numbers."""
    sweep_id = parent.data.tags.get(SWEEP_TAG, "")
    runs = search_runs(client, [parent.info.experiment_id], f"tags.`{SWEEP_TAG}` = '{sweep_id}'")
    # An attempt that failed before its trial was started anew says so behind the trial's id.
    runs = [run for run in runs if " " not in run.data.tags.get(TRIAL_TAG, " ")]

    def order(run: Run) -> tuple[float, int]:
        number = Path(run.data.tags.get(FOLDER_TAG, "")).name.partition("_")[0]
        return float(number) if number.isdecimal() else float("inf"), int(run.info.start_time or 0)

    return sorted(runs, key=order)


def _trial(run: Run, points: Iterable[Point], searched: tuple[str, ...]) -> TrialRecord:
    tags, params = run.data.tags, {k: value_of(text) for k, text in run.data.params.items()}
    rows = one_timeline(_rows(points, params, tags))
    configs = [row.pop("config") for row in rows]
    if (host := tags.get(HOST_TAG, "")).isdecimal():
        rows = [{**row, HOST: int(host)} for row in rows]
    config = configs[-1] if configs else nest(params)
    columns = sorted({name for row in rows for name in row})
    frame = pd.DataFrame(rows, columns=columns).astype({ITERATION: int} if rows else {})
    status = run.info.status
    return TrialRecord(
        trial_id=tags[TRIAL_TAG],
        path=Path(tags.get(FOLDER_TAG) or f"{MLFLOW}{run.info.run_id}"),
        status=tags.get(STATUS_TAG) or _STATUS.get(status, "RUNNING"),
        config=config,
        searched=tuple(name for name in searched if name in params),
        frame=frame,
        row_configs=configs if any(c != config for c in configs) else None,
    )


def _rows(points: Iterable[Point], params: Config, tags: dict[str, str]) -> list[Row]:
    """Return the results in the order of their times, each with its config.

    A scheduler's change of a number is a metric `config/<setting>` from then on, of anything else
    a tag.
    """
    moments: dict[tuple[int, int], Row] = {}
    for key, value, timestamp, step in points:
        moments.setdefault((timestamp, step), {})[key] = value
    changes = sorted(_changes(tags), key=lambda change: change[0])
    current, config, rows = dict(params), nest(params), []
    for (timestamp, step), values in sorted(moments.items()):
        if ITERATION not in values:
            continue  # the value of a setting before its first change: it is among the params
        changed = {name: value for at, name, value in changes if at <= step}
        for name in [name for name in values if name.startswith("config/")]:
            changed[name[7:]] = _like(values.pop(name), params.get(name[7:]))
        if any(current.get(name) != value for name, value in changed.items()):
            current = {**current, **changed}
            config = nest(current)
        rows.append({**values, "timestamp": timestamp // 1000, "config": config})
    return rows


def _changes(tags: dict[str, str]) -> Iterator[tuple[int, str, Any]]:
    """Yield the changes of settings that are no numbers: the step, the setting and its value."""
    for tag, text in tags.items():
        found = re.fullmatch(r"(.*) \(from env step (\d+)\)", text, re.DOTALL)
        if tag.startswith(CHANGED_TAGS) and found is not None:
            yield int(found[2]), tag.removeprefix(CHANGED_TAGS), value_of(found[1])


def _like(number: float, before: Any) -> Any:
    """Return a metric as a setting: whole where it was a whole number before."""
    whole = isinstance(before, int) and not isinstance(before, bool) and number == int(number)
    return int(number) if whole else number
