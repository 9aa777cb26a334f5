"""MLflow's client and store: connecting, finding runs, writing batches within MLflow's limits."""

from __future__ import annotations

import logging
import os
import posixpath
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.credentials import scrubbed
from analysis.results.store_files import sqlite_file, why_not_mlflow
from experiments.errors import PreflightError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# So that the UI opens on runs and metrics, not on traces of language models.
_KIND = {"mlflow.experimentKind": "custom_model_development"}

MAX_BATCH_METRICS = 1000  # MLflow's limit for one log_batch, of metrics and of all together
MAX_BATCH_PARAMS = 100  # likewise of parameters, and of tags
MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 5000
LONG_PARAMS_ARTIFACT = "long_params.json"

# MLflow prints to the terminal, which shows our progress, and asks the server for what it prints.
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# MLflow's own defaults would hang on a dead server for minutes; ours give up within seconds and
# the thread tries again later. A value set by the user wins.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


@dataclass
class Row:
    """The metrics of one result: `values` at env step `step`, reported at `timestamp_ms`."""

    step: int
    timestamp_ms: int
    values: dict[str, float]


def be_quiet() -> None:
    """Keep MLflow from printing to the terminal; call it before MLflow is imported."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)


def connect(tracking_uri: str) -> MlflowClient:
    """Return a client for `tracking_uri`; make or migrate an SQLite schema, once and quietly.

    Raises:
        PreflightError: The URI's file or folder holds something else than MLflow's data. It is
            left as it is.
    """
    check_store(tracking_uri)
    be_quiet()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Quiet first: MLflow announces every table that it makes.
    for noisy in ("alembic", "mlflow.store.db.utils", "mlflow.tracking"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    from mlflow.tracking import MlflowClient

    # MLflow sets levels of its own on import.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # It prints a traceback of each error that it raises, too: a full disk's would be hundreds.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    path = sqlite_file(tracking_uri)
    if path is not None and not path.exists():
        _make_database(path)
    return MlflowClient(tracking_uri=tracking_uri)


def check_store(tracking_uri: str) -> None:
    """See that a tracking store on this machine is MLflow's, or is not there. Writes nothing.

    Raises:
        PreflightError: Its file or folder holds something else.
    """
    problem = why_not_mlflow(tracking_uri)
    if problem is not None:
        raise PreflightError(f"MLflow's tracking URI: {problem}; it is left as it is")


def _make_database(path: Path) -> None:
    """Make a database with MLflow's tables, whole or not at all.

    MLflow makes them in some seventy steps; a process killed in between leaves a database that
    MLflow can neither open nor repair.
    """
    from mlflow.tracking import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        MlflowClient(tracking_uri=f"sqlite:///{new}").search_experiments(max_results=1)
        try:
            os.link(new, path)  # unlike a rename, never in place of another sweep's database
        except FileExistsError:
            return
        except OSError:  # a file system without links
            os.rename(new, path)
    finally:
        new.unlink(missing_ok=True)


def log_batch(
    client: MlflowClient,
    run_id: str,
    rows: Iterable[Row] = (),
    params: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Write metrics, parameters and tags in as few requests as MLflow's limits allow.

    A tag that is too long is cut. A parameter that is too long is cut, and kept whole in the
    artifact `long_params.json`.
    """
    from mlflow.entities import Metric, Param, RunTag

    params = {accepted_key(name): value for name, value in (params or {}).items()}
    long_params = {k: v for k, v in params.items() if len(v) > MAX_PARAM_LENGTH}
    if long_params:
        client.log_dict(run_id, long_params, LONG_PARAMS_ARTIFACT)
        note = f"... (whole in {LONG_PARAMS_ARTIFACT})"
        params |= {k: v[: MAX_PARAM_LENGTH - len(note)] + note for k, v in long_params.items()}
    all_params = [Param(name, value) for name, value in params.items()]
    all_tags = [RunTag(accepted_key(k), _cut(v, MAX_TAG_LENGTH)) for k, v in (tags or {}).items()]
    metrics = [
        Metric(accepted_key(name), value, row.timestamp_ms, row.step)
        for row in rows
        for name, value in row.values.items()
    ]
    while metrics or all_params or all_tags:
        some_params, all_params = all_params[:MAX_BATCH_PARAMS], all_params[MAX_BATCH_PARAMS:]
        some_tags, all_tags = all_tags[:MAX_BATCH_PARAMS], all_tags[MAX_BATCH_PARAMS:]
        room = MAX_BATCH_METRICS - len(some_params) - len(some_tags)
        client.log_batch(run_id, metrics=metrics[:room], params=some_params, tags=some_tags)
        metrics = metrics[room:]


def find_runs(client: MlflowClient, experiment_id: str, tag: str, value: str) -> list[Any]:
    """Return all runs of an experiment whose tag `tag` is `value`."""
    runs: list[Any] = []
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id],
            filter_string=f"tags.`{tag}` = '{value}'",
            max_results=1000,
            page_token=token,
        )
        runs.extend(page)
        token = page.token
        if not token:
            return runs


def ensure_experiment(client: MlflowClient, name: str, artifact_location: str | None) -> str:
    """Return the id of the experiment `name`, making it, or restoring it from the bin, if need be.

    Two sweeps may start at once, so a lost race to make it counts as found.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(
                client.create_experiment(name, artifact_location=artifact_location, tags=_KIND)
            )
        except MlflowException as error:
            experiment = client.get_experiment_by_name(name)
            if error.error_code != "RESOURCE_ALREADY_EXISTS" or experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


# Answers of a proxy whose server is away, or that let too much through.
_UNAVAILABLE = frozenset({"429", "502", "503", "504"})
_UNAVAILABLE_CODES = frozenset({"TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED"})


def is_connection_error(error: BaseException | None) -> bool:
    """Tell whether the server did not answer, walking through what wrapped the cause.

    So it is, too, if a proxy in front of it answers that the server is away or busy.
    """
    while error is not None:
        if isinstance(error, (ConnectionError, TimeoutError)):
            return True
        if getattr(error, "error_code", "") in _UNAVAILABLE_CODES or _gave_up(error):
            return True
        module, name = type(error).__module__.partition(".")[0], type(error).__name__
        if module in {"requests", "urllib3"} and ("Connection" in name or "Timeout" in name):
            return True
        if module == "sqlalchemy" and name == "OperationalError":  # locked, or not to be opened
            return True
        error = error.__cause__ or error.__context__
    return False


def _gave_up(error: BaseException) -> bool:
    """Tell whether requests were repeated until the proxy's answer was taken for the last word."""
    codes = re.findall(r"too many (\d+) error responses", str(error))
    return type(error).__name__ == "RetryError" and not _UNAVAILABLE.isdisjoint(codes)


def accepted_key(name: str) -> str:
    """Return a name as MLflow accepts it: its characters, a plain relative path, 250 at most."""
    clean = "".join(c if c.isalnum() or c in "_-. :/" else "_" for c in str(name))
    return posixpath.normpath(clean).lstrip("./")[:250] or "_"


def _cut(value: str, length: int) -> str:
    return value if len(value) <= length else value[: length - 3] + "..."


def first_line(error: Exception) -> str:
    """Return what an error says in its first line, without credentials, 300 characters at most."""
    lines = scrubbed(str(error)).strip().splitlines()
    return _cut(lines[0] if lines else type(error).__name__, 300)
