"""What a sweep leaves with its MLflow run: report, pictures, tables, policy and a description.

Logged again, after a resume or for a report that was made later, all of it is replaced.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.names import ENV_STEPS, ITERATION, SECONDS
from analysis.numbers import cell, count, duration
from analysis.overview.lineage import LINEAGE_FILE
from analysis.results.mlflow_tags import (
    BEST_POLICY_TAG,
    BEST_TRIAL_TAG,
    MODEL_TAG,
    NAME_TAG,
    NOTE_TAG,
    SWEEP_TAG,
)
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError
from experiments.environment_file import ENVIRONMENT_FILE
from experiments.spec.paths import BEST_FOLDER, FINAL_FILE, REPORT_FILE, SPEC_FILE
from experiments.tracking.names import BEST_ARTIFACT
from experiments.tracking.store import is_connection_error, log_batch
from experiments.tracking.view import share_view, view_path
from experiments.trial_info import PRUNED

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

    from analysis.results.records import TrialRecord

PLOTS_ARTIFACT = "plots"
_PICTURES = frozenset({".png", ".svg", ".pdf"})
_TABLES = frozenset({".html", ".csv"})
_FILES = frozenset({ENVIRONMENT_FILE, FINAL_FILE, LINEAGE_FILE})

_TOP = 5
_MAX_SETTINGS = 6
_MAX_VALUE = 24  # characters of a setting's value
_MAX_CAUSES = 3
_STATUS = {"TERMINATED": "finished", "ERROR": "failed", "RUNNING": "cut off", "PENDING": "cut off"}


def result_files(folder: Path) -> dict[Path, str]:
    """Return the files of a sweep's folder that MLflow gets, each with its artifact folder or "".

    Tune's own files, trials and checkpoints stay where they are.
    """
    found: dict[Path, str] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _PICTURES:
            found[path] = PLOTS_ARTIFACT
        elif path.suffix in _TABLES or path.name in _FILES:
            found[path] = ""
    return {path: place for path, place in found.items() if path.is_file()}


def log_results(
    client: MlflowClient, experiment_id: str, run_id: str, sweep: Sweep, metric: str, mode: str
) -> list[str]:
    """Give a sweep's run what its folder holds, and describe the sweep there.

    Args:
        client: MLflow's client.
        experiment_id: The experiment of the run.
        run_id: The sweep's run.
        sweep: What its folder holds of trials.
        metric: Its objective.
        mode: "max" or "min".

    Returns:
        The artifacts' paths in the run.
    """
    paths = []
    for file, place in result_files(sweep.path).items():
        client.log_artifact(run_id, str(file), artifact_path=place or None)
        paths.append(f"{place}/{file.name}".lstrip("/"))
    if not sweep.trials:
        return paths
    run = client.get_run(run_id)
    links = _links(client, run, paths)
    if key := share_view_of(client, run, sweep, metric, mode):
        views = {
            "trials": view_path(experiment_id, key),
            "curves": view_path(experiment_id, key, charts=True),
        }
        report = {name: links.pop(name) for name in (REPORT_FILE,) if name in links}
        links = report | views | links
    note = sweep_note(sweep, metric, mode, links=links, commands=_commands(sweep.path))
    log_batch(client, run_id, tags={NOTE_TAG: note})
    return paths


def share_view_of(client: MlflowClient, run: Run, sweep: Sweep, metric: str, mode: str) -> str:
    """Write how MLflow's page shows a sweep that has ended.

    Args:
        client: MLflow's client.
        run: The sweep's run.
        sweep: What its folder holds.
        metric: Its objective.
        mode: "max" or "min".

    Returns:
        The key by which the view is opened; "" if there is none.
    """
    from mlflow.exceptions import MlflowException

    from analysis.ranking.leaderboard import leaderboard

    key: str = run.data.tags.get(SWEEP_TAG, "")
    if not key:
        return ""
    try:
        columns = list(leaderboard(sweep, metric, mode).columns)
    except ResultsError:  # no trial has reported the metric
        columns = []
    settings = [name.removeprefix("config/") for name in columns if name.startswith("config/")]
    try:
        share_view(
            client,
            run.info.experiment_id,
            key,
            run_id=run.info.run_id,
            name=run.data.tags.get(NAME_TAG, sweep.name),
            metric=metric,
            mode=mode,
            settings=settings,
            created_ms=run.info.start_time,
        )
    except MlflowException as error:  # not everybody may change an experiment
        if is_connection_error(error):
            raise
        return ""
    return key


def _links(client: MlflowClient, run: Run, paths: list[str]) -> dict[str, str]:
    """Return where MLflow's UI shows what the sweep left there, the report first."""
    runs = f"#/experiments/{run.info.experiment_id}/runs"
    here = f"{runs}/{run.info.run_id}/artifacts"
    has_spec = any(file.path == SPEC_FILE for file in client.list_artifacts(run.info.run_id))
    files = {Path(path).name: f"{here}/{path}" for path in paths}
    links = {name: files.pop(name) for name in (REPORT_FILE,) if name in files}
    tags = run.data.tags
    if BEST_TRIAL_TAG in tags and BEST_POLICY_TAG in tags:
        links["best policy"] = f"{here}/{BEST_ARTIFACT}"
    if MODEL_TAG in tags:
        model = tags[MODEL_TAG].rpartition("/")[2]
        links["model"] = f"#/experiments/{run.info.experiment_id}/models/{model}"
    return links | files | ({SPEC_FILE: f"{here}/{SPEC_FILE}"} if has_spec else {})


def _commands(folder: Path) -> list[str]:
    """Return what repeats the sweep and what uses it, for whoever has downloaded the spec."""
    again = f"{folder.name}-again"
    lines = []
    if (folder / SPEC_FILE).is_file():
        run = shlex.join(["tunescape", "run", SPEC_FILE, "--name", again])
        lines.append(f"{run}  # the spec is above")
    best = folder / BEST_FOLDER
    if best.is_dir():  # not the whole path: a description is read by others
        place = Path(*best.parts[-3:])
        lines.append(f"{shlex.join(['tunescape', 'evaluate', str(place)])}  # the best policy")
    return lines


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
        sweep: What was read of its folder.
        metric: The objective.
        mode: "max" or "min".
        links: The addresses of artifacts, by what these are called.
        commands: Command lines that repeat or use it.
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
    named = ", ".join(f"{times} {end}" for end, times in counts.most_common())
    shared = f" in {count(len(sweep.hosts), 'process')}" if sweep.hosts else ""
    return f"{count(total, 'trial')}{shared}: {named}." if total else "No trial began."


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
        f"- {times} failed: `{cause[:200].replace('`', chr(39))}`"
        for cause, times in causes.most_common(_MAX_CAUSES)
    ]
    if len(causes) > _MAX_CAUSES:
        lines.append(f"- and {len(causes) - _MAX_CAUSES} other causes")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, wherever it stands."""
    short = text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"
    return re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", short.replace("\n", " "))
