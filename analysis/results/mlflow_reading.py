"""MLflow's store, read: opened, searched page by page, its texts turned back into settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from analysis.credentials import scrubbed
from analysis.errors import ResultsError
from analysis.reachable import check_tracking
from analysis.results.store_files import sqlite_file, why_not_mlflow

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

_NUMBER = re.compile(r"[+-]?\d*\.?\d+(?:e[+-]?\d+)?", re.IGNORECASE)
_TEXT = {"True": True, "False": False, "None": None}


@contextmanager
def open_store(uri: str) -> Iterator[MlflowClient]:
    """Open a tracking store for reading; nothing is made where there is none.

    Raises:
        ResultsError: There is no such store, it does not answer, or reading it fails in the block.
    """
    if problem := check_tracking(uri):
        raise ResultsError(problem)
    database = sqlite_file(uri)
    if database is not None and not database.exists():  # MLflow would make one
        raise ResultsError(
            f"{uri}: there is no such database; give tracking_uri, or set MLFLOW_TRACKING_URI"
        )
    problem = why_not_mlflow(uri)
    if problem is not None:  # MLflow would make its tables in it
        raise ResultsError(f"{scrubbed(uri)}: MLflow cannot be read: {problem}")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield MlflowClient(tracking_uri=uri)
    except (MlflowException, RequestException, SQLAlchemyError) as error:
        said = scrubbed(str(error)).strip().partition("\n")[0]
        raise ResultsError(f"{scrubbed(uri)}: MLflow cannot be read: {said}") from None


def search_runs(client: MlflowClient, experiments: Iterable[str], condition: str) -> list[Run]:
    """Find all runs of some experiments, by their ids, that meet a condition."""
    ids = list(experiments)
    return list(pages(client.search_runs, ids, condition)) if ids else []


def pages(search: Any, *args: Any) -> Iterator[Any]:
    """Read everything that one of the client's searches finds, a thousand at a time."""
    token = None
    while True:
        page = search(*args, max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def value_of(text: str) -> Any:
    """Turn a parameter's text into the setting that it was."""
    if text in _TEXT:
        return _TEXT[text]
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    if _NUMBER.fullmatch(text):
        return float(text) if re.search(r"[.eE]", text) else int(text)
    return text
