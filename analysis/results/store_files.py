"""Whether a file or folder that is to be written to as a store is one: looked at, never touched.

MLflow and Optuna put their tables into any SQLite database, and Optuna its lines into any file that
they are given, before they see that it is somebody else's.
"""

from __future__ import annotations

import json
import re
import sqlite3
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import unquote, urlsplit

from analysis.credentials import scrubbed

MLFLOW_TABLES = frozenset({"experiments", "runs"})
OPTUNA_TABLES = frozenset({"studies", "trials"})

_TRACKING_SCHEMES = (
    "",
    "file",
    "http",
    "https",
    "sqlite",
    "postgresql",
    "mysql",
    "mssql",
    "databricks",
)
_WITHOUT_PLACE = ("databricks", "databricks-uc", "uc")
_SQLITE_HEADER = b"SQLite format 3\0"
_SQLITE_URI = re.compile(r"sqlite(?:\+\w+)?:///(?P<path>[^?]+)")
_LONGEST_LINE = 1_000_000  # bytes of a journal's first line, which makes a study


def sqlite_file(uri: str) -> Path | None:
    """Return the file of an SQLite URI; None for any other, and for a database in memory."""
    found = _SQLITE_URI.match(uri)
    return None if found is None or found["path"] == ":memory:" else Path(found["path"])


def why_no_tracking_uri(uri: str) -> str | None:
    """Return why MLflow has no store for a URI; None if it has one. Its place is not looked at."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname
    except ValueError as error:
        return f"{scrubbed(uri)} is no URI: {error}"
    scheme = parts.scheme.partition("+")[0]
    if scheme in ("http", "https") and not host:
        return f"{scrubbed(uri)} names no host"
    if scheme in _TRACKING_SCHEMES or uri in _WITHOUT_PLACE:
        return None
    if scheme in entry_points(group="mlflow.tracking_store").names:
        return None
    return (
        f"{scrubbed(uri)} is no tracking store of MLflow's; allowed: a folder, or "
        f"{', '.join(f'{name}://…' for name in _TRACKING_SCHEMES if name)}"
    )


def why_not_mlflow(uri: str) -> str | None:
    """Return why MLflow must not write to a tracking URI: its file or folder holds something else.

    Returns:
        One line; None if the place is MLflow's, empty or not there, or is on a server.
    """
    problem = why_no_tracking_uri(uri)
    if problem is not None:
        return problem
    path = sqlite_file(uri)
    if path is not None:
        return why_not_database(path, MLFLOW_TABLES, "MLflow")
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return None
    folder = Path(unquote(parts.path))
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file; for a database write sqlite:///{folder}"
    if folder.is_dir() and any(folder.iterdir()) and not any(folder.glob("*/meta.yaml")):
        return f"the folder {folder} holds something else than MLflow's experiments"
    return None


def why_not_database(path: Path, tables: frozenset[str], owner: str) -> str | None:
    """Say why a file is not the owner's SQLite database; None if it is, or is empty or absent.

    Args:
        path: The file.
        tables: Tables that every database of the owner has.
        owner: Whose it should be, for the message.
    """
    problem = _why_no_file(path)
    if problem is not None or not path.exists() or not path.stat().st_size:
        return problem
    try:
        with path.open("rb") as stream:
            if stream.read(len(_SQLITE_HEADER)) != _SQLITE_HEADER:
                return f"{path} is no SQLite database"
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
        try:
            rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            found = {str(name) for (name,) in rows}
        finally:
            database.close()
    except sqlite3.OperationalError:  # locked by somebody who writes: it is left to the owner
        return None
    except (OSError, sqlite3.Error) as error:
        return f"{path} cannot be read: {error}"
    if found and not tables <= found:
        return f"{path} is a database of something else than {owner}"
    return None


def why_not_journal(path: Path) -> str | None:
    """Return why a file is not a journal of Optuna's; None if it is, is empty or is not there."""
    problem = _why_no_file(path)
    if problem is not None or not path.exists() or not path.stat().st_size:
        return problem
    try:
        with path.open("rb") as stream:
            first = stream.readline(_LONGEST_LINE)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if first.startswith(_SQLITE_HEADER):
        return f"{path} is an SQLite database; write sqlite:///{path}"
    try:
        entry = json.loads(first)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict) or not {"op_code", "worker_id"} <= entry.keys():
        return f"{path} exists and is no journal of Optuna's"
    return None


def _why_no_file(path: Path) -> str | None:
    if path.is_dir():
        return f"{path} is a folder; name a file"
    if path.exists() and not path.is_file():
        return f"{path} is no regular file"
    return None
