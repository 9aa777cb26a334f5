"""Where a sweep's files lie. All paths are absolute: trials run in other processes."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

from analysis.home import expanded
from experiments.errors import SpecError
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import LearningSection, OptunaSection

SPEC_FILE = "spec.yaml"
LOCK_FILE = ".driver"
BEST_FOLDER = "best"
CURVES_FILE = "learning_curves.png"
EFFECTS_FILE = "effects.png"
LINEAGE_PICTURE = "lineage.png"
PARETO_FILE = "pareto.png"
PARETO_TABLE = "pareto.csv"
REPORT_FILE = "report.html"
FINAL_FILE = "final.json"


def storage_dir(spec: SweepSpec) -> Path:
    """Return the folder that holds the sweeps' folders and MLflow's database."""
    if "://" in spec.storage:
        raise SpecError(
            f"storage = {spec.storage!r}: remote storage is not supported; use a folder that "
            "all nodes share, e.g. a mounted bucket (experiments/cluster.md)"
        )
    return expanded(spec.storage).absolute()


def sweep_dir(spec: SweepSpec) -> Path:
    """Return the folder that holds all that the sweep writes."""
    return storage_dir(spec) / spec.name


def tracking_uri(spec: SweepSpec) -> str:
    """Return the spec's tracking URI, or MLFLOW_TRACKING_URI, or SQLite in the storage folder."""
    uri = spec.mlflow.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        return default_tracking_uri(storage_dir(spec))
    return absolute_tracking_uri(uri)


def absolute_tracking_uri(uri: str) -> str:
    """Return a tracking URI that names the same place from every folder."""
    location = absolute_location(uri)
    return location if urlsplit(location).scheme else Path(location).as_uri()


def absolute_location(text: str) -> str:
    """Return a path or SQLite URI such that it names one place from any folder; others as is.

    Example:
        >>> absolute_location("sqlite:////data/runs.db"), absolute_location("http://host")
        ('sqlite:////data/runs.db', 'http://host')
    """
    sqlite = re.fullmatch(r"(sqlite(?:\+\w+)?:///)(.+)", text)
    if sqlite is not None:
        return f"{sqlite[1]}{expanded(sqlite[2]).absolute()}"
    return text if urlsplit(text).scheme else str(expanded(text).absolute())


def default_tracking_uri(storage: Path) -> str:
    """Return the URI of MLflow's database of a storage folder."""
    return f"sqlite:///{storage.absolute() / 'mlflow.db'}"


def shown_path(path: Path) -> str:
    """Return the path relative to the current folder if it lies below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def command_line(name: str, folder: Path, *options: str) -> str:
    """Return a command of tunescape on a folder, to be pasted into a shell."""
    return shlex.join(["tunescape", name, shown_path(folder), *options])


def saved_line(folder: Path) -> str:
    """Return what is left of a sweep or matrix that was cut off, and how it goes on."""
    resume = command_line("resume", folder)
    return f"all finished results are kept: `{resume}` continues"


def settle_paths(spec: SweepSpec) -> None:
    """Name databases, journals and folders by their absolute paths, in the spec itself.

    A `${env:…}` that gave a local path is not kept as a reference: it holds no password, and would
    be read anew, relative to wherever the sweep is resumed.
    """
    spec.mlflow.tracking_uri = _settled(spec, "mlflow.tracking_uri", spec.mlflow.tracking_uri)
    search = spec.search
    if isinstance(search, OptunaSection) and search.study_storage:
        where = absolute_location(search.study_storage)
        _forget_reference(spec, "search.study_storage", search.study_storage, where)
        search.study_storage = where
    if isinstance(search, LearningSection):
        for number, source in enumerate(search.warm_start):
            key = f"search.warm_start.{number}.tracking_uri"
            source.tracking_uri = _settled(spec, key, source.tracking_uri)
            if source.folder is not None:
                source.folder = absolute_location(source.folder)


def _settled(spec: SweepSpec, key: str, uri: str | None) -> str | None:
    if not uri:
        return uri
    settled = absolute_tracking_uri(uri)
    _forget_reference(spec, key, uri, settled)
    return settled


def _forget_reference(spec: SweepSpec, key: str, given: str, settled: str) -> None:
    if given != settled:
        spec._references.pop(key, None)
